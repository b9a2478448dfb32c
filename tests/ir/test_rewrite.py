"""The greedy driver: where patterns fire, where they must not, and how rules that never end are stopped."""

import pytest

from polyreme.dialects import dist, nn, tensor
from polyreme.ir.diagnostics import PassError
from polyreme.ir.rewrite import RewriteError, pattern, rewrite_greedily
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify


@pattern(tensor.Map)
def cancel_neg(op, b):
    """neg(neg(x))  ->  x"""
    inner = op.xs[0].producer(tensor.Map)
    if op.fn != "neg" or inner is None or inner.fn != "neg":
        return None
    return inner.xs[0]


@pattern(tensor.Transpose)
def merge_transposes(op, b):
    """transpose(transpose(x, p), q)  ->  transpose(x, p[q])"""
    inner = op.x.producer(tensor.Transpose)
    if inner is None:
        return None
    return b(tensor.Transpose, inner.x, perm=tuple(inner.perm[i] for i in op.perm))


def body(text, patterns, **options):
    module = parse_module(f"func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{\n{text}\n}}")
    verify(module)
    count = rewrite_greedily(module, patterns, **options)
    verify(module)
    return [op.strip() for op in print_module(module).splitlines()[2:-2]], count


def test_a_chain_is_rewritten_until_nothing_matches_and_dead_ops_go():
    text = "\n".join(f'%v{i} = tensor.map %{f"v{i - 1}" if i else "x"} {{fn = "neg"}}' for i in range(6)) + "\nreturn %v5"
    assert body(text, [cancel_neg]) == (["return %x"], 3)


def test_what_a_pattern_makes_is_looked_at_again_and_inherits_name_and_place():
    module = parse_module(
        """func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
             %a = tensor.transpose %x {perm = [1, 2, 0]}
             %b = tensor.transpose %a {perm = [1, 2, 0]}
             %c = tensor.transpose %b {perm = [1, 2, 0]}
             return %c
           }"""
    )
    rewrite_greedily(module, [merge_transposes])
    (op, _) = module.function().block
    assert (op.perm, op.result.name, op.location.line) == ((0, 1, 2), "c", 4)


def test_where_no_pattern_matches_nothing_changes():
    text = '%a = tensor.map %x {fn = "exp"} : tensor<2x3xf32>\nreturn %a'
    assert body(text, [cancel_neg, merge_transposes]) == (text.splitlines(), 0)


def test_ops_that_a_declining_pattern_inserted_are_taken_back():
    @pattern(tensor.Map)
    def look_and_leave(op, b):
        b(tensor.Map, *op.xs, fn="neg")

    text = '%a = tensor.map %x {fn = "exp"} : tensor<2x3xf32>\nreturn %a'
    assert body(text, [look_and_leave]) == (text.splitlines(), 0)


def test_an_op_may_be_changed_in_place():
    @pattern(tensor.Map)
    def exp_to_tanh(op, b):
        """exp(x)  ->  tanh(x)"""
        if op.fn != "exp":
            return None
        op.attributes = {**op.attributes, "fn": "tanh"}
        return op.result

    assert body('%a = tensor.map %x {fn = "exp"}\nreturn %a', [exp_to_tanh])[0][0] == '%a = tensor.map %x {fn = "tanh"} : tensor<2x3xf32>'


def test_rules_that_undo_each_other_end_in_an_error_that_names_them_and_no_others():
    @pattern(tensor.Map)
    def forth(op, b):
        """sin(x)  ->  cos(x)"""
        return b(tensor.Map, op.xs[0], fn="cos") if op.fn == "sin" else None

    @pattern(tensor.Map)
    def back(op, b):
        """cos(x)  ->  sin(x)"""
        return b(tensor.Map, op.xs[0], fn="sin") if op.fn == "cos" else None

    # Thirty rewrites that are well: they come first, and more often than the others.
    chain = "\n".join(f'%v{i} = tensor.map %{f"v{i - 1}" if i else "x"} {{fn = "neg"}}' for i in range(60))
    module = parse_module(
        f'func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{chain}\n%a = tensor.map %v59 {{fn = "sin"}}\nreturn %a\n}}', "net.tir"
    )
    with pytest.raises(RewriteError) as caught:
        rewrite_greedily(module, [cancel_neg, forth, back], budget=50)
    assert str(caught.value).splitlines() == [
        "net.tir:62:6: error[E0404]: expected patterns to come to an end within 50 rewrites but these kept firing: 'forth' (11 times), "
        "'back' (10 times)",
        "net.tir:62:6: note: 'forth' (sin(x) -> cos(x)) fired last on 'tensor.map'",
        "net.tir:62:6: note: 'back' (cos(x) -> sin(x)) fired last on 'tensor.map'",
    ]


def test_the_work_list_looks_again_at_those_around_what_changed_and_at_nothing_else():
    looked = []

    @pattern(tensor.Map)
    def look(op, b):
        """x  ->  x, never"""
        looked.append(op.result.name)

    text = (
        "\n".join(f'%v{i} = tensor.map %{f"v{i - 1}" if i else "x"} {{fn = "{"neg" if i in (4, 5) else "exp"}"}}' for i in range(9))
        + "\nreturn %v8"
    )
    body(text, [look, cancel_neg])
    # Each once, from the front; then the producer and the user of the pair that went.
    assert looked == ["v0", "v1", "v2", "v3", "v4", "v5", "v3", "v6", "v7", "v8"]


def test_a_pattern_that_changes_a_type_is_an_error():
    @pattern(tensor.Map)
    def shrink(op, b):
        return b(tensor.Reduce, op.xs[0], fn="add", axes=[0])

    with pytest.raises(PassError, match=r"the pattern 'shrink' put tensor<3xf32> in place of tensor<2x3xf32> of 'tensor.map'"):
        body('%a = tensor.map %x {fn = "sin"}\nreturn %a', [shrink])


def test_ops_inside_of_regions_are_rewritten_too():
    text = """%a = tensor.fused %x : tensor<2x3xf32> { (%b: tensor<2x3xf32>)
                %c = tensor.map %b {fn = "neg"}
                %d = tensor.map %c {fn = "neg"}
                tensor.yield %d
              }
              return %a"""
    assert "tensor.yield %b" in body(text, [cancel_neg])[0]


def test_what_stood_in_an_op_that_a_pattern_has_erased_is_not_looked_at():
    @pattern(nn.Neg, dist.AllReduce)
    def erase_the_branch_behind(op, b):
        """neg(x), and a branch behind it  ->  neg(x)"""
        assert op.operands, "an op that is gone is looked at"
        branch = next((other for other in op.parent.ops if isinstance(other, nn.If)), None)
        if branch is None:
            return None
        branch.erase()
        return tuple(op.results)

    lines, count = body(
        """%c = nn.constant {value = dense<true>} : tensor<i1>
        %a = nn.neg %x : tensor<2x3xf32>
        %b = nn.if %c, [%x] : tensor<2x3xf32> { (%d: tensor<2x3xf32>)
          %e = dist.all_reduce %d : tensor<2x3xf32>
          nn.yield %e
        } { (%d: tensor<2x3xf32>)
          nn.yield %d
        }
        return %a""",
        [erase_the_branch_behind],
    )
    assert count == 1 and not any("nn.if" in line for line in lines)
