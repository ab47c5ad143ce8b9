"""What requests and answers hold: the types that OpenAPI documents and that requests are checked against."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from tpnet_dist.errors import InputError

MOST_LINKS, MOST_SOURCES, MOST_CANDIDATES, MOST_FEATURES = 10_000, 100, 100_000, 1024
MOST_CHOSEN = 1000
"""These are scored in one piece."""
_MOST_ID = 256
_DATE = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?$"

Id = (
    Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1)]
    | Annotated[StrictStr, Field(min_length=1, max_length=_MOST_ID)]
)
Number = (
    Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1)]
    | Annotated[StrictFloat, Field(allow_inf_nan=False)]
)
Time = Number | Annotated[StrictStr, Field(pattern=_DATE)]
Ids = Annotated[list[Id], Field(min_length=1, max_length=MOST_LINKS)]
Times = Time | Annotated[list[Time], Field(min_length=1, max_length=MOST_LINKS)]
Row = Annotated[list[Number], Field(max_length=MOST_FEATURES)]
Unknown = Literal["refuse", "score"]
Chosen = Literal["recent", "popular", "two-hop"]


class Request(BaseModel):
    """Refuses fields it does not know."""

    model_config = ConfigDict(extra="forbid")


class ScoreRequest(Request):
    """Links, as columns of equal length."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"src": ["ann", "bob"], "dst": ["x", "y"]}]})

    src: Ids = Field(description="Sources, by the ids of the raw data.")
    dst: Ids = Field(description="Destinations, as many.")
    time: Times | None = Field(
        None,
        description="When: as the log counts time, or ISO dates if it counts since 1970; one, or one for "
        "each link. By default the time of the last event.",
    )
    probability: StrictBool = Field(False, description="Probabilities instead of logits.")
    unknown: Unknown = Field("refuse", description="Score ids that nobody knows as nodes without history.")


class TopKRequest(Request):
    """Sources that look for destinations."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"src": ["ann"], "k": 5}]})

    src: Annotated[list[Id], Field(min_length=1, max_length=MOST_SOURCES)] = Field(description="Sources.")
    k: Annotated[StrictInt, Field(ge=1, le=MOST_LINKS)] = Field(10, description="How many destinations.")
    time: Times | None = Field(None, description="As of `/score`.")
    candidates: Annotated[list[Id], Field(min_length=1, max_length=MOST_CANDIDATES)] | Chosen | None = Field(
        None,
        description="Destinations to choose from; by default all. Or how to choose `count` of them for each "
        "source: destinations of the last events, of most events, or of the partners of its partners.",
    )
    count: Annotated[StrictInt, Field(ge=1, le=MOST_CHOSEN)] = Field(
        MOST_CHOSEN, description="How many candidates are chosen for each source."
    )
    exclude_seen: StrictBool = Field(False, description="Leave out partners that the source has had.")
    exclude_self: StrictBool = Field(False, description="Leave out the source itself.")
    probability: StrictBool = Field(False, description="Probabilities instead of logits.")
    unknown: Unknown = Field("refuse", description="Rank for sources that nobody knows too.")


class ObserveRequest(Request):
    """Events, as columns of equal length, in order of time."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"src": ["ann"], "dst": ["x"], "time": 1700000060}]}
    )

    src: Ids = Field(description="Sources; ids that nobody knows are admitted, as far as there is room.")
    dst: Ids = Field(description="Destinations, as many.")
    time: Times = Field(description="As of `/score`; not before the last event.")
    features: Annotated[list[Row], Field(min_length=1, max_length=MOST_LINKS)] | None = Field(
        None, description="A row of numbers for each event, if the log's events have features."
    )
    late: Literal["refuse", "now"] = Field(
        "refuse", description="Refuse events before the last event, or let them happen at its time."
    )
    if_events: Annotated[StrictInt, Field(ge=0)] | None = Field(
        None,
        description="Refuse with 409 unless so many events have happened: makes it safe to repeat a request "
        "whose answer was lost.",
    )


class ScoreAnswer(BaseModel):
    scores: list[float] = Field(description="Logits, or probabilities, float32, in the order of the links.")
    now: int | float = Field(description="The time of the last event the scores know of.")
    events: int = Field(description="How many events they know of.")


class TopKAnswer(BaseModel):
    destinations: list[list[int | str]] = Field(
        description="Of each source, best first; fewer than `k` where no more candidates are left."
    )
    scores: list[list[float]]
    now: int | float
    events: int


class ObserveAnswer(BaseModel):
    observed: int = Field(description="How many events of this request were taken; they are on disk.")
    late: int = Field(description="How many of them happen now instead of earlier.")
    now: int | float
    events: int = Field(description="How many events have happened, those of the log included.")


class Health(BaseModel):
    status: Literal["ok"]
    model: str
    log: str = Field(description="The id of the event log.")
    now: int | float
    events: int
    observed: int = Field(description="How many events were observed since the log's last.")
    waiting: int = Field(description="Requests that wait or are worked on.")


class Problem(BaseModel):
    """One sentence: what is wrong, the rule, the remedy."""

    detail: str


def moments_of(times: Any) -> Any:  # noqa: ANN401 — as the request has them, one or many
    """Numbers as they are, dates as such."""
    if isinstance(times, list):
        return [moments_of(time) for time in times]
    if not isinstance(times, str):
        return times
    try:
        moment = datetime.fromisoformat(times)
        return moment if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InputError(f"time {times!r} is no date ({error}); write it as 2024-02-29T13:30:00") from error
