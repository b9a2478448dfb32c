"""A pass of one's own: it says which ops a function consists of, and changes nothing.

    polyreme inspect examples/lenet.py:LeNet --level tensor --load examples/count_ops.py --add-pass count-ops@after:tensor
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from polyreme.ir.builtin import Func
from polyreme.ir.passes import FuncPass, register_pass


@register_pass
@dataclass(frozen=True)
class CountOps(FuncPass):
    """Print how many ops there are of each kind.

    Before and after: any module.
    """

    name: ClassVar[str] = "count-ops"
    most: int = 5

    def run_on(self, func: Func) -> None:
        counts = Counter(op.name for op in func.walk())
        told = ", ".join(f"{count} {name}" for name, count in counts.most_common(self.most))
        print(f"@{func.sym_name}: {told}", file=sys.stderr)
