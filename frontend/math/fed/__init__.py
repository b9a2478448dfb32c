"""What a program is fed in place of attributes: sizes, places and axes that are known when it runs."""
