"""What is known of symbolic sizes beyond their names: facts, equations, guards."""
