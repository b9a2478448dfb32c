"""Questions about tensor ops that change nothing: where elements stand, what rows a group has, what a root costs."""
