"""All forms of recording agree, rows may lie in either table, and layers follow their own rules.

Triton's form runs in Triton's interpreter, on tensors of the host.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.memories import WALKS
from tests.support.triton_here import needs_triton
from tpnet_dist.memory.device_batch import Terms, TermsRecorder, record_terms
from tpnet_dist.memory.kernels import Clocks, Ends, record_on_host
from tpnet_dist.memory.walks import LayerRules, Walk, WalkKind

NODES, BATCHES, EVENTS, HOPS = 9, 6, 11, 3
TRITON = pytest.param("triton", marks=needs_triton)
FORMS = ["host", "device", TRITON]


def recorder(form: str) -> Callable[..., None]:
    if form == "host":
        return record_on_host
    record: TermsRecorder = record_terms
    if form == "triton":
        from tpnet_dist.memory.triton_record import record_terms_by_triton

        record = record_terms_by_triton

    def record_batches(
        own: Tensor, borrowed: Tensor, ends: Ends, batches: range, clocks: Clocks, rules: LayerRules
    ) -> None:
        for batch in batches:
            record(own, borrowed, clocks, Terms.of(ends, batch, rules), rules)

    return record_batches


def random_ends(num_borrowed: int = 0, seed: int = 0) -> Ends:
    """Of nodes of which the last so many are borrowed; with self-loops, a hub, equal times and pauses."""
    draw = np.random.default_rng(seed)
    src, dst = (draw.integers(0, NODES, BATCHES * EVENTS) for _ in range(2))
    src[draw.random(len(src)) < 0.4] = 2
    place_of_node = np.arange(NODES)
    place_of_node[NODES - num_borrowed :] = -1 - np.arange(num_borrowed)
    time = np.cumsum(draw.choice([0.0, 0.0, 1.5, 40.0], len(src)))
    return Ends(
        place_of_node[np.stack([src, dst], 1).ravel()],
        place_of_node[np.stack([dst, src], 1).ravel()],
        np.full(2 * len(src), HOPS, np.int8),
        np.repeat(time, 2),
        np.arange(0, 2 * len(src) + 1, 2 * EVENTS),
    )


def recorded(
    form: str,
    rules: LayerRules,
    ends: Ends,
    *,
    num_borrowed: int = 0,
    dtype: torch.dtype = torch.float64,
    beyond: float = 0.0,
) -> tuple[Tensor, Clocks]:
    """All rows, own and borrowed ones in the order of their nodes, and all clocks.

    `beyond`: what borrowed rows hold in layers of two and more hops.
    """
    generator, layers = torch.Generator().manual_seed(1), len(rules.hop_L)
    rows_NLD = torch.zeros(NODES, layers, 5, dtype=dtype)
    rows_NLD[:, 0] = torch.randn(NODES, 5, generator=generator, dtype=dtype)
    own, borrowed = rows_NLD[: NODES - num_borrowed].clone(), rows_NLD[NODES - num_borrowed :].clone()
    borrowed[:, 2:] = beyond
    clocks = Clocks.zeros(NODES, with_degree=rules.divides_by_degree)
    for batches in (range(2), range(2, 2), range(2, BATCHES)):
        recorder(form)(own, borrowed, ends, batches, clocks, rules)
    return torch.cat([own, borrowed]), clocks


@pytest.mark.parametrize("kind", WALKS)
@pytest.mark.parametrize("num_borrowed", [0, 4, NODES])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("form", "reference", "in_float32"),
    [("device", "host", 3e-6), pytest.param("triton", "device", 1e-6, marks=needs_triton)],
)
def test_a_form_records_what_its_reference_records(
    form: str, reference: str, in_float32: float, kind: WalkKind, num_borrowed: int, dtype: torch.dtype
) -> None:
    """`in_float32`: how far apart they may be in it."""
    tolerance = in_float32 if dtype == torch.float32 else 1e-13
    rules, ends = Walk(kind, HOPS, 1e-2).rules, random_ends(num_borrowed)
    (host, clocks), (device, device_clocks) = (
        recorded(each, rules, ends, num_borrowed=num_borrowed, dtype=dtype) for each in (reference, form)
    )
    largest = host.abs().amax(2, keepdim=True)
    assert host[:, 1:].abs().min() > 0
    assert ((host - device).abs() <= tolerance * largest).all()
    assert torch.equal(clocks.time_V, device_clocks.time_V)
    # events of a batch are added up before they meet what was there
    torch.testing.assert_close(clocks.degree_V, device_clocks.degree_V, rtol=4e-16, atol=0)


@pytest.mark.parametrize("kind", WALKS)
@pytest.mark.parametrize("form", FORMS)
def test_in_which_table_rows_lie_changes_no_bit(form: str, kind: WalkKind) -> None:
    rules = Walk(kind, HOPS, 1e-2).rules
    wanted, _ = recorded(form, rules, random_ends())
    for num_borrowed in (3, NODES):
        found, _ = recorded(form, rules, random_ends(num_borrowed), num_borrowed=num_borrowed)
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("form", FORMS)
def test_layers_of_more_hops_than_asked_for_stay_as_they_are(form: str) -> None:
    rules, ends = Walk("decay", HOPS, 1e-2).rules, random_ends()
    everything, _ = recorded(form, rules, ends)
    fewer, _ = recorded(form, rules, ends._replace(hops_E=np.full_like(ends.hops_E, 1)))
    assert torch.equal(fewer[:, :2], everything[:, :2])
    assert not fewer[:, 2:].any()


@pytest.mark.parametrize("form", FORMS)
def test_layers_that_were_never_brought_may_hold_anything(form: str) -> None:
    """Layers beyond those a receiver asks for are neither read nor written, whatever they hold."""
    rules, ends = Walk("decay", HOPS, 1e-2).rules, random_ends(num_borrowed=4)
    ends = ends._replace(hops_E=np.where(ends.receiver_E < 0, 1, HOPS).astype(np.int8))
    ends = ends._replace(sender_E=np.where(ends.hops_E == HOPS, np.maximum(ends.sender_E, 0), ends.sender_E))
    found, _ = recorded(form, rules, ends, num_borrowed=4, beyond=np.nan)
    assert not found[:, :2].isnan().any()
    assert not found[: NODES - 4].isnan().any()
    assert found[NODES - 4 :, 2:].isnan().all()


@pytest.mark.parametrize("form", FORMS)
def test_layers_of_several_timescales_are_those_of_a_memory_for_each(form: str) -> None:
    both = Walk("decay", HOPS, (1e-4, 1e-2)).rules
    np.testing.assert_array_equal(both.parent_L, [0, 0, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(both.hop_L, [0, 1, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(both.scale_L, [0, 0, 1, 0, 1, 0, 1])
    rows, _ = recorded(form, both, random_ends())
    for first, rate in ((1, 1e-4), (2, 1e-2)):
        alone, _ = recorded(form, Walk("decay", HOPS, rate).rules, random_ends())
        torch.testing.assert_close(rows[:, [0, *range(first, 7, 2)]], alone, rtol=1e-12, atol=0)


@pytest.mark.parametrize("form", FORMS)
def test_in_float32_layers_of_several_timescales_have_the_bits_of_a_memory_for_each(form: str) -> None:
    rates = (0.0, 1e-4, 1e-2)
    rows, _ = recorded(
        form, Walk("decay", HOPS, rates).rules, random_ends(4), num_borrowed=4, dtype=torch.float32
    )
    for first, rate in enumerate(rates, start=1):
        rules = Walk("decay", HOPS, rate).rules
        alone, _ = recorded(form, rules, random_ends(4), num_borrowed=4, dtype=torch.float32)
        assert torch.equal(rows[:, [0, *range(first, rows.shape[1], 3)]], alone)
