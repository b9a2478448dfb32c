"""Attention, recurrent layers and scans."""
