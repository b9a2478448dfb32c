"""What Winograd's inner product costs on the cores that it is for: those of Zen 4, where multiply-adds leave units idle."""

from __future__ import annotations

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True)
class InnerProductCosts:
    """Cycles, fitted to times on Zen 4.

    - `copy`: of a vector of A's rows; `gather` more where it is gathered.
    - `row`: of a row's own sums; `result` of a vector of results, `step` of six steps for one.
    - `direct_result`: of a vector of results by the plain product; `transpose` of one of B there.
    - `pack`: of a vector of B that is packed at each call; `memory_pack` if the panels exceed L3, too.
    - `end`: threads wait for the last tasks of several products.
    """

    copy: float = 4
    gather: float = 2
    row: float = 30
    result: float = 9
    step: float = 4.3
    direct_result: float = 5
    transpose: float = 12
    pack: float = 12
    memory_pack: float = 40
    end: float = 3000


INNER_PRODUCT_COSTS = InnerProductCosts()
