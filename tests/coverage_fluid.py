"""`python -m tests.coverage_fluid [-v]`: which names of `paddle.fluid` are there, tested and wrong.

Names are those of `tests/fluid_api/names.json`: what 1.8.5 exports, and what pages of earlier releases document ("older"); and the index
of `fluid.layers` in `layers.json`. A case of `tests/fluid_api` compares with 1.8.5; `TOLD` names files that compare with the documents,
which no Paddle that installs today can do. The column "shapes" counts names of `fluid.layers` whose cases go over three kinds of shapes,
"sequences" those that work on sequences, and "empty", "one" and "ragged" those of them whose cases feed sequences of which one has no rows,
one alone, and some of several lengths. `tests/fluid/test_empty_sequences.py` says which names 1.8.5 lets have none without rows.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import polyreme
import polyreme.fluid as fluid
from tests.api.table import resolve
from tests.coverage_api import signature_fault
from tests.fluid.test_empty_sequences import REFUSED
from tests.fluid_api.kinds import SEQUENCES, Kinds, watched
from tests.fluid_api.names import in_index
from tests.fluid_api.names import stored as names
from tests.fluid_api.record import stored
from tests.fluid_api.table import differences, load

# Names (with all that stand below them) that are not there, and why.
OUT_OF_SCOPE = {
    "paddle.fluid.contrib": "extras of 1.8 that no document of our users names",
    "paddle.fluid.install_check": "checks Paddle's own installation",
    "paddle.fluid.ComplexVariable": "2.x has complex dtypes",
    "paddle.fluid.DistributeTranspiler": "the parameter server is work of its own",
    "paddle.fluid.DistributeTranspilerConfig": "the parameter server is work of its own",
    "paddle.fluid.Executor.train_from_dataset": "training on files of the parameter server",
    "paddle.fluid.Executor.infer_from_dataset": "training on files of the parameter server",
    "paddle.fluid.io.DataLoader.from_dataset": "training on files of the parameter server",
    "paddle.fluid.reader.DataLoader.from_dataset": "training on files of the parameter server",
    "paddle.fluid.Program.global_seed": "seeds the draws of dygraph, which paddle.seed does",
    "paddle.fluid.dygraph.TreeConv": "an operator on trees that no document of our users names",
    "paddle.fluid.dygraph.dygraph_to_static_func": "1.8's translator of source; `declarative` compiles by capture",
    "paddle.fluid.metrics.DetectionMAP": "detection operators of 1.8",
    "paddle.fluid.optimizer.DGCMomentumOptimizer": "gradient compression among servers",
    "paddle.fluid.optimizer.Dpsgd": "not documented for our users",
    "paddle.fluid.optimizer.DpsgdOptimizer": "not documented for our users",
    "paddle.fluid.optimizer.PipelineOptimizer": "not documented for our users",
    "paddle.fluid.io.default_collate_fn": "paddle.io has it",
    "paddle.fluid.reader.default_collate_fn": "paddle.io has it",
    "paddle.fluid.io.PyReader.next": "Python 2's iterators",
    "paddle.fluid.reader.PyReader.next": "Python 2's iterators",
    "paddle.fluid.io.PyReader.queue": "a part of how Paddle's reader is made",
    "paddle.fluid.reader.PyReader.queue": "a part of how Paddle's reader is made",
    "paddle.fluid.framework.Operator.OP_WITHOUT_KERNEL_SET": "a part of how Paddle's operators are made",
}
# Names (with all below) whose right answer is told by documents, and the test that asks for it.
TOLD = {
    "paddle.fluid.Trainer": "tests/fluid/test_trainer.py",
    "paddle.fluid.Inferencer": "tests/fluid/test_trainer.py",
    "paddle.fluid.CheckpointConfig": "tests/fluid/test_trainer.py",
    "paddle.fluid.BeginEpochEvent": "tests/fluid/test_trainer.py",
    "paddle.fluid.EndEpochEvent": "tests/fluid/test_trainer.py",
    "paddle.fluid.BeginStepEvent": "tests/fluid/test_trainer.py",
    "paddle.fluid.EndStepEvent": "tests/fluid/test_trainer.py",
    "paddle.fluid.Go": "tests/fluid/test_concurrency.py",
    "paddle.fluid.Select": "tests/fluid/test_concurrency.py",
    "paddle.fluid.make_channel": "tests/fluid/test_concurrency.py",
    "paddle.fluid.channel_send": "tests/fluid/test_concurrency.py",
    "paddle.fluid.channel_recv": "tests/fluid/test_concurrency.py",
    "paddle.fluid.channel_close": "tests/fluid/test_concurrency.py",
    "paddle.fluid.ParallelExecutor.bcast_params": "tests/distributed/test_parallel_executor.py",
    "paddle.fluid.io.save_checkpoint": "tests/fluid/test_files.py",
    "paddle.fluid.profiler.cuda_profiler": "tests/fluid/test_package.py",
    "paddle.fluid.dygraph.rnn": "tests/fluid/test_dygraph_cells.py",
    "paddle.fluid.layers.lstm": "tests/fluid/test_cudnn_lstm.py",
    "paddle.fluid.layers.unbind": "tests/fluid/test_own_layers.py",
}
# Names that append operators of sequences, and which kinds of sequences they are never given, and why.
NEVER = {
    "beam_search_decode": (("empty",), "a search begins with a word of each source"),
    "detection_output": (SEQUENCES, "its boxes are those of the priors, as many for each image"),
}
# Names that no case can compare, and why.
UNTESTED = {
    "paddle.fluid.optimizer.ModelAverage.current_step_lr": "1.8.5 answers in dygraph mode only, in which it has no ModelAverage",
}
# Ends of names whose signatures read otherwise, and why no call that 1.8.5 takes is refused.
CALLED_ALIKE = {
    ".to_string": "throw_on_error may be left out",
    ".DataFeeder.decorate_reader": "multi_devices may be left out",
    ".Trainer.test": "feed_order may be left out",
    ".MetricBase": "the name may be left out",
    ".append_op": "what **kwargs takes is spelled out",
    ".insert_op": "what **kwargs takes is spelled out",
    ".create_parameter": "what **kwargs takes is spelled out",
    ".create_var": "what **kwargs takes is spelled out",
    ".compose": "what **kwargs takes is spelled out",
    ".optimized_guard": "what a decorator shows as *args is spelled out",
    ".Scope.find_var": "a function in C++, whose argument has no name",
    ".Scope.var": "a function in C++, whose argument has no name",
    ".Operator": "made by Block.append_op",
    ".Variable": "made by Block.create_var",
    ".Parameter": "made by Block.create_parameter",
    "Variable.backward": "an error for a variable of a program in either",
    "Parameter.backward": "an error for a variable of a program in either",
    ".dygraph.Layer": "'float32' is VarType.FP32",
    ".layers.cross_entropy": "kIgnoreIndex is -100",
    ".layers.sigmoid_cross_entropy_with_logits": "kIgnoreIndex is -100",
    ".layers.data": "all variables of data are LoD tensors",
    ".layers.deformable_roi_pooling": "a tuple for a list that is read only",
    ".layers.generate_proposal_labels": "a tuple for a list that is read only",
    ".layers.hard_shrink": "what the operator takes for None is spelled out",
    ".layers.softshrink": "what the operator takes for None is spelled out",
    ".layers.thresholded_relu": "what the operator takes for None is spelled out",
}


@dataclass
class Row:
    """What is known of one name."""

    name: str
    since: str
    present: bool
    signature: str = ""
    cases: int = 0
    told: str = ""
    wrong: list[str] = field(default_factory=list)
    kinds: Kinds = field(default_factory=Kinds)

    @property
    def over_shapes(self) -> bool:
        """Whether its cases go over three kinds of shapes."""
        return bool(self.cases) and len(self.kinds.shapes) >= 3

    @property
    def lacking(self) -> list[str]:
        """The kinds of sequences that its cases do not go over, and could under 1.8.5."""
        if not self.cases or not self.kinds.of_sequences:
            return []
        name = self.name.rpartition(".")[2]
        told = ("empty",) if name in REFUSED else NEVER.get(name, ((),))[0]
        return [kind for kind in SEQUENCES if kind not in (*self.kinds.sequences, *told)]


def reason(table: dict[str, str], name: str) -> str:
    """What the table says of a name or of what it stands below."""
    while name:
        if name in table:
            return table[name]
        name = name.rpartition(".")[0]
    return ""


def found(name: str) -> tuple[bool, Any]:
    """Whether a name is there, and what it is; fields that an instance sets are None."""
    try:
        return True, resolve(polyreme, name)
    except AttributeError:
        pass
    try:
        owner = resolve(polyreme, name.rpartition(".")[0])
    except AttributeError:
        return False, None
    field_name = name.rpartition(".")[2]
    sources = [inspect.getsource(k) for k in getattr(owner, "__mro__", ()) if k.__module__.startswith("polyreme")]
    return any(f"self.{field_name}" in s or f"    {field_name}:" in s for s in sources), None


def survey(run: bool = True) -> dict[str, Row]:
    """A row for every name; with `run` all cases are run."""
    rows = {}
    for entry in [*names(), *in_index()]:
        name, told = entry["name"], entry["signature"]
        present, value = found(name)
        fault = signature_fault(value, told) if value is not None and told is not None else ""
        fault = "" if any(name.endswith(end) for end in CALLED_ALIKE) else fault
        rows[name] = Row(name, entry["since"], present, fault, told=reason(TOLD, name) or reason(UNTESTED, name))
    kept, layers = stored(), "paddle.fluid.layers."
    with watched([name.removeprefix(layers) for name in rows if name.startswith(layers)]) as kinds:
        for i, case in load().items():
            fingerprint, expected = (case.fingerprint, None) if case.older else kept.get(i, (None, None))
            faults = [] if fingerprint == case.fingerprint else ["is not recorded as it stands"]
            if run and not faults:
                faults = differences(case.run(fluid, np), expected)
            for name in case.names:
                if name in rows:
                    rows[name].cases += 1
                    rows[name].wrong += faults
    for name, found_kinds in kinds.items():
        rows[layers + name].kinds = found_kinds
    return rows


def main(arguments: list[str]) -> None:
    rows = survey()
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows.values():
        parts = row.name.split(".")
        groups[parts[2] if len(parts) > 3 and parts[2].islower() else "fluid"].append(row)
        groups["all"].append(row)
    print(f"{'':20}{'names':>6}{'present':>8}{'cases':>6}{'told':>6}{'untested':>9}{'wrong':>6}{'signature':>10}{'shapes':>7}"
          f"{'sequences':>10}" + "".join(f"{kind:>7}" for kind in SEQUENCES))  # fmt: skip
    for group, members in groups.items():
        tell = Counter(
            present=sum(r.present for r in members), cases=sum(r.present and bool(r.cases) for r in members),
            told=sum(r.present and not r.cases and bool(r.told) for r in members), wrong=sum(bool(r.wrong) for r in members),
            signature=sum(bool(r.signature) for r in members),
            untested=sum(r.present and not r.cases and not r.told for r in members), shapes=sum(r.over_shapes for r in members),
        )  # fmt: skip
        sequences = [r for r in members if r.cases and r.kinds.of_sequences]
        print(
            f"{group:20}{len(members):6}{tell['present']:8}{tell['cases']:6}{tell['told']:6}{tell['untested']:9}{tell['wrong']:6}"
            f"{tell['signature']:10}{tell['shapes'] or '':>7}{len(sequences) or '':>10}"
            + "".join(f"{sum(kind in r.kinds.sequences for r in sequences) or '':>7}" for kind in SEQUENCES)
        )
    if "-v" in arguments:
        for row in rows.values():
            if not row.present:
                print("absent   ", row.name, "::", reason(OUT_OF_SCOPE, row.name) or "NO REASON")
            elif row.wrong:
                print("wrong    ", row.name, "::", row.wrong[:2])
            elif not row.cases and not row.told:
                print("untested ", row.name)
            if row.present and row.cases and row.name.startswith("paddle.fluid.layers.") and not row.over_shapes:
                print("few kinds", row.name, "::", len(row.kinds.shapes))
            if row.kinds.of_sequences:
                print("sequences", row.name, "::", " ".join(row.kinds.sequences), "lacks " + " ".join(row.lacking) if row.lacking else "")
            if row.signature:
                print("signature", row.name, "::", row.signature)


if __name__ == "__main__":
    main(sys.argv[1:])
