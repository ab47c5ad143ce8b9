"""Compiled training steps give the losses of those that are not, and few shapes are compiled."""

import shutil

import pytest
import torch
from torch import nn

from benchmarks.rank_pool import world_of_one
from tests.support.sentences import refused
from tests.unit.models.random_queries import random_model, random_query
from tests.unit.models.small_models import SMALL, batch_for, small
from tpnet_dist.config.schema import TrainingConfig
from tpnet_dist.models.common.loss import links_loss, split_logits
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.training.compilation import check_compile, compiled
from tpnet_dist.training.engine import DdpEngine
from tpnet_dist.training.microbatch_scorer import MicrobatchScorer

DEFAULT = TrainingConfig(compile="default")
NUMBERS_OF_EVENTS = (12, 20, 16, 31, 40, 13)


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def losses_of(config: TrainingConfig) -> list[float]:
    """Of steps of different sizes; no two have as many slots."""
    model = random_model(mixer_layers=1, edge_width=2)
    engine = DdpEngine(model, learning_rate=1e-4, num_ranks=1, compiled=compiled(model, config))
    losses = []
    for number in NUMBERS_OF_EVENTS:
        query = random_query(events=number, seed=number, edge_width=2)
        with engine.batch(is_last=True):
            [[logits]] = engine.score([[query]])
            loss = links_loss(*split_logits([logits])) / number
            engine.learn(loss)
        engine.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.timeout(900)
def test_a_compiled_step_gives_the_losses_of_an_eager_one_and_compiles_once_for_all_sizes() -> None:
    """By the real compiler of the host; where it multiplies few rows otherwise, it may compile once more."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler here, which torch.compile needs")
    with world_of_one():
        eager, found = losses_of(TrainingConfig()), losses_of(DEFAULT)
    assert found == pytest.approx(eager, abs=1e-5)
    stats = torch._dynamo.utils.counters["stats"]
    assert 1 <= stats["unique_graphs"] <= 2, dict(stats)


def plainly(model: nn.Module, batch: LinkBatch) -> torch.Tensor:
    """Compiled by a compiler that compiles nothing, as the training step uses compiled models."""
    scorer = MicrobatchScorer(model, compiled=torch.compile(model, backend="eager", dynamic=True))  # type: ignore[arg-type]
    [[logits]] = scorer([[batch]])
    return logits


def test_weights_learn_through_the_compiled_model() -> None:
    model, query = random_model(mixer_layers=1), random_query()
    logits = plainly(model, query)
    torch.testing.assert_close(logits, model(query))
    logits.square().sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in model.parameters())


def test_compiled_weights_have_the_names_they_have_without() -> None:
    model = random_model(mixer_layers=1)
    names = set(model.state_dict())
    plainly(model, random_query())
    assert set(model.state_dict()) == names
    assert set(MicrobatchScorer(model, compiled=compiled(model, DEFAULT)).state_dict()) == {
        f"model.{name}" for name in names
    }


@pytest.mark.parametrize("name", SMALL)
def test_other_models_compile_too(name: str) -> None:
    one_layer = {"layers": 1} if name in ("dygformer", "tcl") else {}
    model, batch = small(name, dropout=0.0, **one_layer).train(), batch_for(name)
    logits = plainly(model, batch)
    torch.testing.assert_close(logits, model(batch))
    logits.square().sum().backward()
    assert any(weight.grad is not None and weight.grad.any() for weight in model.parameters())


REFUSED = (
    (TrainingConfig(compile="reduce-overhead"), "cpu"),
    (TrainingConfig(compile="reduce-overhead", engine="deepspeed"), "cuda"),
)


@pytest.mark.parametrize(("config", "device"), REFUSED)
def test_what_cannot_be_compiled_is_refused(config: TrainingConfig, device: str) -> None:
    with refused():
        check_compile(config, device)


def test_gpus_without_triton_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpnet_dist.training.compilation.find_spec", lambda name: None)
    with refused():
        check_compile(DEFAULT, "cuda")


def test_a_host_without_compiler_compiles_nothing() -> None:
    with torch._inductor.config.patch({"cpp.cxx": (None, "none-such")}), refused():
        check_compile(DEFAULT, "cpu")


def test_without_compilation_nothing_is_refused() -> None:
    for device in ("cpu", "cuda"):
        check_compile(TrainingConfig(), device)
    assert compiled(random_model(), TrainingConfig()) is None
