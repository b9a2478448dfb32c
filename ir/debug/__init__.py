"""For people who look for faults: smaller modules that still show one, what a failing pass leaves behind, how far numbers may differ."""
