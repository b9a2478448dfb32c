"""The files of the quick lane, `pytest -m quick`: what a common mistake breaks, in every room, within a minute on one core.

Their tests are marked in `conftest.py`, but for those that have a mark of their own, such as `slow`; other files are not even imported.
"""

from __future__ import annotations

FILES = (
    "test_quick.py",
    "test_rooms.py",
    "test_filetests.py",
    "test_install.py",
    "ir/test_config.py",
    "ir/test_convert.py",
    "ir/test_core.py",
    "ir/test_dense.py",
    "ir/test_diagnostics.py",
    "ir/test_dims.py",
    "ir/test_evaluate.py",
    "ir/test_facts.py",
    "ir/test_grammar.py",
    "ir/test_invariants.py",
    "ir/test_op_examples.py",
    "ir/test_passes.py",
    "ir/test_rewrite.py",
    "ir/test_scalar.py",
    "ir/test_verify.py",
    "dialects/test_nn_infer.py",
    "dialects/test_tensor.py",
    "lowering/transforms/test_cleanup.py",
    "lowering/schedule/test_arena.py",
    "runtime/test_artifact.py",
    "runtime/test_cache.py",
    "runtime/test_executable.py",
    "runtime/test_sizes.py",
    "frontend/test_legacy_ops.py",
    "frontend/test_printing.py",
    "frontend/test_static_program.py",
    "frontend/test_tape.py",
    "frontend/test_tensor.py",
    "cli/test_info.py",
    "cli/test_listing.py",
    "cli/test_text_form.py",
    "distributed/test_alone.py",
    "gpu/test_runner.py",
)
