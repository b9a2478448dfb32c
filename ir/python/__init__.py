"""What Python does by itself, done in a way that suits a compiler: the search for garbage, the methods of dataclasses."""
