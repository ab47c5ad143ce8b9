"""The mixer equals LayerNorm, linear, GELU, dropout, linear, dropout written out, gradients included."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.models.common.dropout import Dropout, EventDropout, event_keys
from tpnet_dist.models.common.mixer import ChannelMixing, Mixer, TokenMixing

M, N, K, EVENTS = 6, 8, 10, 4
KEYS = event_keys(3, 1, torch.arange(EVENTS))


class MasksOf(EventDropout):
    """Drops by the same keys, but as everybody does: multiply by the mask, divide by the rate of keeping."""

    def dropped(self, values: Tensor) -> Tensor:
        return values * self._keep_mask(values) * self.scale


def written_out(mixing: TokenMixing | ChannelMixing, x: Tensor, masks: MasksOf | None) -> Tensor:
    turn = (lambda t: t.permute(1, 2, 0)) if isinstance(mixing, TokenMixing) else (lambda t: t)
    back = (lambda t: t.permute(2, 0, 1)) if isinstance(mixing, TokenMixing) else (lambda t: t)
    drop = (lambda t: turn(masks.dropped(back(t)))) if masks else (lambda t: t)
    hidden = drop(F.gelu(mixing.first(mixing.norm(turn(x)))))
    return x + back(drop(mixing.second(hidden)))


def scrambled(mixing: torch.nn.Module) -> torch.nn.Module:
    """No norm stays at ones and zeros."""
    torch.manual_seed(0)
    for parameter in mixing.parameters():
        torch.nn.init.normal_(parameter, 0.2, 0.5)
    return mixing.double()


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("kind", [TokenMixing, ChannelMixing])
def test_mixing_equals_its_definition(kind: type, dropped: bool) -> None:
    mixing = scrambled(kind(M, 3) if kind is TokenMixing else kind(K, 7))
    found, expected = (torch.randn(M, N, K, dtype=torch.float64) for _ in range(2))
    expected = found.clone().requires_grad_()
    found.requires_grad_()
    out = mixing(found, EventDropout(KEYS, 0.4) if dropped else Dropout())
    out_expected = written_out(mixing, expected, MasksOf(KEYS, 0.4) if dropped else None)
    torch.testing.assert_close(out, out_expected)

    weights = torch.randn_like(out)
    gradients = torch.autograd.grad((out * weights).sum(), [found, *mixing.parameters()])
    wanted = torch.autograd.grad((out_expected * weights).sum(), [expected, *mixing.parameters()])
    for gradient, gradient_expected in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, gradient_expected)


def test_pooling_before_the_last_linear_layer_changes_nothing() -> None:
    mixer = scrambled(Mixer(2, M, K))
    x = torch.randn(M, N, K, dtype=torch.float64)
    in_full = x
    for layer in mixer.layers:
        in_full = layer.channels(layer.tokens(in_full, Dropout()), Dropout())
    torch.testing.assert_close(mixer(x, Dropout()), in_full.mean(0))


@pytest.mark.parametrize("kind", [TokenMixing, ChannelMixing])
def test_no_sequence_at_all_gives_gradients_of_zero(kind: type) -> None:
    mixing = scrambled(kind(M, 3) if kind is TokenMixing else kind(K, 7))
    x = torch.empty(M, 0, K, dtype=torch.float64, requires_grad=True)
    out = mixing(x, EventDropout(KEYS[:0], 0.4))
    assert out.shape == x.shape
    assert all(not gradient.any() for gradient in torch.autograd.grad(out.sum(), [*mixing.parameters()]))
