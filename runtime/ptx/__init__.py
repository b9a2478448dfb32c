"""An emulated GPU: PTX run on numpy, with every access checked."""
