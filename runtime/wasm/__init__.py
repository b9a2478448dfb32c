"""WebAssembly: what a module has in place of a system, the JavaScript that loads it, and a module called from Python."""
