"""Every setting of a run: one TOML key, one dotted flag. Values are checked when they are made."""

import math
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal

from tpnet_dist.config.model_configs import DEFAULT_MODEL, model_config_type
from tpnet_dist.errors import InputError

Batching = Literal["events", "timestamps"]
NegativeKind = Literal["random", "historical", "inductive"]
Baseline = Literal["none", "edgebank", "destinations", "all"]
Decay = float | tuple[float, ...] | Literal["auto"]

MAX_HOPS, MAX_LAYERS, MAX_TIMESCALES = 16, 100, 8
AUTO_TIMESCALES = 2
"""The number of timescales that `memory.decay auto` chooses."""
MAX_RUN = 10_000
MAX_BATCH = 2**31 - 1
MAX_SIZE = 2**16
"""The most tokens and channels: what is larger is a typing error, and its weights would fit nowhere."""
MAX_COMPETITORS = 100_000
"""The most competitors of an event in ranking, whose neighbours a rank holds all at once."""

MAX_MICROBATCHES = 256
"""The most microbatches of a batch; each is a forward pass of its own."""
MAX_LEARNING_RATE = 1e37
"""Adam's first step takes ten times this, which float32 must hold."""
MIN_TIMEOUT = 10
"""Seconds; ranks give a sign of life each second, and write files meanwhile."""
MAX_TIMEOUT = 7 * 24 * 3600
"""The most seconds of a timeout; what is longer is no limit."""


class SettingError(InputError):
    """Values of these keys are refused, wherever they came from."""

    def __init__(self, sentence: str, keys: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.keys = keys


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The event log and how it is cut."""

    folder: str = ""
    """The data folder; empty: a small social log, made on first use."""
    batching: Batching = "events"
    """events: batches of fixed size, the paper's protocol; timestamps: no border cuts a group of equal times,
    so that nothing simultaneous leaks."""
    val_share: float = 0.15
    """Share of the events, by time, for validation."""
    test_share: float = 0.15
    """Share of the events, the latest, for test."""
    new_node_share: float = 0.1
    """Share of the nodes whose events leave training, to be met as new ones."""
    split_seed: int = 2020
    """The seed that chooses those nodes, the same for all seeds of a run; with 2020 they are DyGLib's."""
    held_out: tuple[int, ...] = ()
    """Events that stay out of training too: the number of the first, and that after the last. A run that goes
    on from another has the test part of that one here."""

    def __post_init__(self) -> None:
        for name in ("val_share", "test_share"):
            _require(0 < getattr(self, name) < 1, f"data.{name}", getattr(self, name), "above 0 and below 1")
        both = self.val_share + self.test_share
        _require(
            both < 1,
            "data.val_share + data.test_share",
            both,
            "below 1, so that training keeps a share",
            "lower one of them",
        )
        _require(0 <= self.new_node_share <= 1, "data.new_node_share", self.new_node_share, "within 0…1")
        is_range = len(self.held_out) in (0, 2) and min(self.held_out, default=0) >= 0
        _require(
            is_range and list(self.held_out) == sorted(self.held_out),
            "data.held_out",
            list(self.held_out),
            "the first event and that after the last, such as [8500, 10000]",
            "leave it away for none",
        )
        _require(0 <= self.split_seed < 2**31, "data.split_seed", self.split_seed, f"within 0…{2**31 - 1}")


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """The propagation memory."""

    enabled: bool = True
    """False: no node representations, no pair features (the paper's "w/o NR")."""
    walk: Literal["decay", "count", "transition"] = "decay"
    """The walk matrix: the paper's, plain counts, or transition probabilities."""
    decay: Decay = 1e-6
    """λ, or α of transition walks, per second; 0 is the paper's "w/o Time". Several, such as 1e-7,1e-5, are
    timescales, of which a row of decay walks has k layers each; auto takes two from the times of training
    events."""
    hops: int = 3
    """Length of the longest walks, k."""
    width: int | None = None
    """Floats per projection, d_R; by default min(10·⌊ln 2E⌋, nodes) for E events."""
    prefetch: int = 2
    """The number of batches that the exchange runs ahead of the model; changes no result."""
    rows_on: Literal["device", "host"] = "device"
    """Where rows lie: on the device, or in the RAM of its host, which records them and sends a GPU those that
    a batch reads; for rows that do not fit on GPUs, and slower. Changes results by rounding at most."""
    exchange_dtype: Literal["float32", "bfloat16"] = "float32"
    """The type in which rows travel between ranks; bfloat16 rounds them, so results depend on when they
    travel."""
    borrowed_rows: int | None = None
    """The most copies of other ranks' rows that a rank keeps between exchanges, within half of what rows,
    weights and a step leave of its RAM; by default an eighth of that RAM; changes no result."""
    run_batches: int | None = None
    """The number of timestamp batches that ranks exchange rows for at once; by default up to 32, as long as
    borrowed rows fit; 1 is an exchange for every batch; changes no result."""
    catch_up: Literal["auto", "columns", "nodes"] = "auto"
    """How events are recorded that nobody scores, before an evaluation or when a run goes on: by columns of
    all nodes without a message, or by node; auto takes what costs less time; changes no result."""

    def __post_init__(self) -> None:
        _require(1 <= self.hops <= MAX_HOPS, "memory.hops", self.hops, f"within 1…{MAX_HOPS}")
        self._check_decay()
        _require(self.width is None or self.width >= 1, "memory.width", self.width, "at least 1")
        _require(self.prefetch >= 0, "memory.prefetch", self.prefetch, "at least 0")
        _require((self.borrowed_rows or 0) >= 0, "memory.borrowed_rows", self.borrowed_rows, "at least 0")
        _require(
            self.run_batches is None or 1 <= self.run_batches <= MAX_RUN,
            "memory.run_batches",
            self.run_batches,
            f"within 1…{MAX_RUN:,}",
        )

    def _check_decay(self) -> None:
        """Check λ, and give the same timescales one form: a number, or several from slow to fast."""
        if self.decay == "auto":
            return
        rates, shown = self.rates, decay_text(self.decay)
        for rate in rates:
            rule = "a finite number of at least 0" if len(rates) == 1 else "finite numbers of at least 0"
            _require(0 <= rate < math.inf, "memory.decay", shown, rule)
        _require(len(rates) > 0, "memory.decay", "empty", "a number, several or auto")
        are_distinct = len(set(rates)) == len(rates)
        _require(are_distinct, "memory.decay", shown, "distinct numbers", "name each once")
        _require(
            len(rates) <= MAX_TIMESCALES,
            "memory.decay",
            f"of {len(rates)} numbers",
            f"of at most {MAX_TIMESCALES}",
            "leave some away",
        )
        if len(rates) > 1 and self.walk != "decay":
            raise SettingError(
                f"memory.decay is {shown}, but memory.walk {self.walk} has one timescale; give one "
                "number, or leave memory.walk away",
                ("memory.decay", "memory.walk"),
            )
        object.__setattr__(self, "decay", rates[0] if len(rates) == 1 else tuple(sorted(rates)))

    @property
    def rates(self) -> tuple[float, ...]:
        """λ of each timescale, slow ones first."""
        assert self.decay != "auto", "timescales are taken from a log before they are used"
        return self.decay if isinstance(self.decay, tuple) else (self.decay,)

    @property
    def timescales(self) -> int:
        if self.decay == "auto":
            return AUTO_TIMESCALES if self.walk == "decay" else 1
        return len(self.rates)

    @property
    def layers(self) -> int:
        """The layers of a row: layer 0, and k for each timescale."""
        return 1 + self.hops * self.timescales


def decay_text(decay: Decay) -> str:
    """Return λ as people write it."""
    return ",".join(f"{rate:g}" for rate in decay) if isinstance(decay, tuple) else str(decay)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The model: what all of them have. Each adds settings of its own, in models/NAME/config.py."""

    title: ClassVar[str]
    """The model's name as people write it."""

    name: str = DEFAULT_MODEL
    """The name of the model."""
    weights: str = ""
    """Start from the weights of this file: a best.pt of a run, or a checkpoint of the released code."""

    def require(self, holds: bool, name: str, rule: str, remedy: str = "") -> None:
        """Refuse the value of a setting that breaks its rule."""
        default = next(field.default for field in fields(self) if field.name == name)
        remedy = remedy or f"the default, {default}, will do"
        _require(holds, f"model.{name}", getattr(self, name), rule, remedy)

    def require_within(self, least: float, most: float, *names: str) -> None:
        """Refuse the first of these settings that is below `least` or above `most`."""
        for name in names:
            self.require(least <= getattr(self, name) <= most, name, f"within {least}…{most:,}")


def _default_model() -> ModelConfig:
    model: ModelConfig = model_config_type(DEFAULT_MODEL)()
    return model


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The settings of training: how weights are learned."""

    batch_size: int = 200
    """Events per timestamp batch."""
    batches_per_step: int = 1
    """Timestamp batches per optimizer step."""
    microbatches: int | None = None
    """Parts of every batch that are scored each by itself, with gradients added in a fixed order; a power of
    two. On up to so many ranks of CPUs results are the same to the last bit. Left away: 4 on CPUs, one for
    each rank on GPUs."""
    continue_from: str = ""
    """Start from the weights and the optimizer of this run. The flag of that name takes its settings too."""
    epochs: int = 100
    """The most passes over the training events."""
    max_steps: int | None = None
    """Stop after so many optimizer steps in all, for a quick look."""
    learning_rate: float = 1e-4
    """The learning rate of Adam."""
    patience: int = 20
    """Stop when validation AP has not risen for so many epochs."""
    negatives: Literal["random", "historical"] = "random"
    """The kind of negatives that training events are scored against."""
    seed: int = 0
    """The seed of weights, projections, negatives and dropout."""
    seeds: tuple[int, ...] = ()
    """Several runs in one, with mean and standard deviation; instead of seed."""
    engine: Literal["ddp", "deepspeed"] = "ddp"
    """What brings gradients together: torch's DistributedDataParallel, or DeepSpeed with ZeRO."""
    deepspeed: str = ""
    """A DeepSpeed JSON; empty: launch/deepspeed.json. Its "auto" values are filled in from these settings."""
    precision: Literal["float32", "tf32", "bfloat16", "float64"] = "float32"
    """The type in which the dense model multiplies, in training and scoring; rows, times and losses stay
    float32, but for float64, in which all is computed: for comparing ranks or machines, where rounding would
    grow. tf32 rounds factors to 10 bits, on GPUs from Ampere on; elsewhere it is float32."""
    compile: Literal["off", "default", "reduce-overhead"] = "off"
    """torch.compile of the model's training step: default fuses operations, reduce-overhead replays them as
    CUDA graphs too. The first step then takes a minute or two. On CPUs it drops other values."""
    triton: bool = True
    """Use Triton's kernels for rows and pair features on CUDA, where Triton is installed; False: plain torch
    operations. Changes results by rounding at most."""
    deterministic: bool = False
    """On GPUs, only operations that give the same bits each time they are run, which may be slower; what has
    none is refused. CPUs always do."""
    timeout: float = 600.0
    """Seconds after which a rank that does not answer ends the run on all ranks."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "batches_per_step", "epochs", "patience"):
            _require(getattr(self, name) >= 1, f"training.{name}", getattr(self, name), "at least 1")
        for name in ("batch_size", "batches_per_step"):
            _require_countable(f"training.{name}", getattr(self, name))
        _require(
            self.microbatches is None
            or (0 < self.microbatches <= MAX_MICROBATCHES and self.microbatches.bit_count() == 1),
            "training.microbatches",
            self.microbatches,
            f"a power of two, at most {MAX_MICROBATCHES}",
        )
        _require(
            self.max_steps is None or self.max_steps >= 1, "training.max_steps", self.max_steps, "at least 1"
        )
        _require(
            0 < self.learning_rate <= MAX_LEARNING_RATE,
            "training.learning_rate",
            self.learning_rate,
            f"above 0 and at most {MAX_LEARNING_RATE:g}",
        )
        _require(
            MIN_TIMEOUT <= self.timeout <= MAX_TIMEOUT,
            "training.timeout",
            self.timeout,
            f"within {MIN_TIMEOUT}…{MAX_TIMEOUT:,}",
        )
        rule = f"within 0…{2**31 - 1}"
        _require(0 <= self.seed < 2**31, "training.seed", self.seed, rule)
        for seed in self.seeds:
            _require(0 <= seed < 2**31, "training.seeds", seed, rule, "leave it out")
        are_distinct = len(set(self.seeds)) == len(self.seeds)
        _require(are_distinct, "training.seeds", self.seeds, "distinct numbers", "name each once")

    def all_seeds(self) -> tuple[int, ...]:
        return self.seeds or (self.seed,)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """The settings of evaluation: how links are ranked, and against what."""

    negatives: tuple[NegativeKind, ...] = ("random",)
    """The kinds of negatives that test events are scored against at the best epoch; validation between epochs
    uses the first alone."""
    mrr_negatives: int = 0
    """Rank each test event against so many random destinations; 0: no MRR."""
    protocol: Literal["dyglib", "stream"] = "dyglib"
    """dyglib: inductive figures from a pass of their own over the inductive events, as in the paper's tables;
    stream: from one pass over all."""
    update: bool = True
    """Whether the memory goes on recording through validation and test."""
    batch_size: int = 200
    """Events per batch; the paper's AP and AUC are means over batches of 200."""
    baseline: Baseline = "none"
    """Baselines for the same events and negatives: edgebank in its four modes and the best of them, recency
    and popularity of destinations, or all; each takes 75 bytes per event while it is made."""
    test_every_epoch: bool = False
    """Evaluate the test part after each epoch too, to draw its curve; it decides nothing."""

    def __post_init__(self) -> None:
        key, kinds = "evaluation.negatives", self.negatives
        _require(len(kinds) > 0, key, kinds, "at least one kind", "write random, or leave it away")
        _require(len(set(kinds)) == len(kinds), key, kinds, "distinct kinds", "name each once")
        _require(
            0 <= self.mrr_negatives <= MAX_COMPETITORS,
            "evaluation.mrr_negatives",
            self.mrr_negatives,
            f"within 0…{MAX_COMPETITORS:,}",
        )
        _require(self.batch_size >= 1, "evaluation.batch_size", self.batch_size, "at least 1")
        _require_countable("evaluation.batch_size", self.batch_size)


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """What of a run is kept on disk, beside the best weights."""

    every_steps: int = 0
    """Write the whole state every so many optimizer steps; 0: at the end of each epoch only."""
    keep: int = 2
    """The number of these checkpoints that stay."""

    def __post_init__(self) -> None:
        _require(self.every_steps >= 0, "checkpoint.every_steps", self.every_steps, "at least 0")
        _require(self.keep >= 1, "checkpoint.keep", self.keep, "at least 1")


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run."""

    data: DataConfig = field(default_factory=DataConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    model: ModelConfig = field(default_factory=_default_model)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)


def default_width(num_events: int, num_nodes: int) -> int:
    """Return the width d_R by the paper's rule."""
    return max(1, min(10 * math.floor(math.log(2 * num_events)), num_nodes))


def _require(holds: bool, key: str, value: object, rule: str, remedy: str = "") -> None:
    if not holds:
        sentence = f"{key} is {value}, but must be {rule}; {remedy or _default_instead(key)}"
        raise SettingError(sentence, tuple(key.split(" + ")))


def _require_countable(key: str, count: int) -> None:
    """Refuse a count that no log can hold."""
    _require(count <= MAX_BATCH, key, count, f"at most {MAX_BATCH:,}")


def _default_instead(key: str) -> str:
    section, name = key.split(".")
    default = getattr(getattr(Config(), section), name)
    return "leave it away for the default" if default is None else f"the default, {default}, will do"
