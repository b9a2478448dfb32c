"""Where we differ from Paddle 3.3.1 on purpose: the case's id, and the reason as docs/differences.md gives it."""

from __future__ import annotations

ON_PURPOSE: dict[str, str] = {}
