"""What operators with blocks of operators do."""
