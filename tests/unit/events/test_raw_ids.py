"""Raw ids to dense ones and back: integers and text, one id space and two, known and admitted."""

import numpy as np
import pyarrow as pa
import pytest

from tests.support.sentences import refused
from tpnet_dist.events.raw_ids import UNKNOWN, RawIds

TWO_SPACES = pa.table({"raw_id": ["7", "b", "7"], "side": ["dst", "src", "src"]})


def of_integers(capacity: int = 3) -> RawIds:
    return RawIds(pa.table({"raw_id": [30, 10, 20]}), first_new=4, capacity=capacity)


@pytest.mark.parametrize("asked", [[10, 30, 99], ["10", "30", "99"], np.array([10, 30, 99], np.int32)])
def test_integers_are_found_however_they_are_given(asked: object) -> None:
    assert of_integers().find(np.asarray(asked), "dst").tolist() == [1, 0, UNKNOWN]


@pytest.mark.parametrize("word", ["010", "ten", "", "1.0", "9" * 30])
def test_words_that_are_no_plain_integers_are_unknown(word: str) -> None:
    assert of_integers().find(np.array([word], object), "src").tolist() == [UNKNOWN]
    with refused():
        of_integers().admit_links(np.array([word], object), np.array(["10"], object))


def test_blanks_around_an_id_are_none_of_it() -> None:
    assert of_integers().find(np.array([" 10", "30\t"], object), "src").tolist() == [1, 0]
    ids = RawIds(TWO_SPACES, first_new=3, capacity=5)
    assert ids.find(np.array([" b ", "7 "]), "src").tolist() == [1, 2]
    ids.admit_links(np.array([" new"]), np.array(["7"]))
    assert ids.newcomers == [("src", "new")]
    src, dst = of_integers().find_links(np.array(["50 "]), np.array(["50"]))
    assert src.tolist() == dst.tolist()


def test_two_sides_have_ids_of_their_own() -> None:
    ids = RawIds(TWO_SPACES, first_new=3, capacity=5)
    assert ids.find(np.array([7]), "src").tolist() == [2]
    assert ids.find(np.array(["7"]), "dst").tolist() == [0]
    assert ids.find(np.array(["b"]), "dst").tolist() == [UNKNOWN]
    src, dst = ids.admit_links(np.array(["new", "b"]), np.array(["new", "b"]))
    assert (src.tolist(), dst.tolist()) == ([3, 1], [4, 5])
    assert ids.destinations().tolist() == [0, 4, 5]
    assert ids.raw_of(np.array([[0, 1], [4, 5]])).tolist() == [["7", "b"], ["new", "b"]]


def test_in_one_space_a_newcomer_is_one_node_on_both_sides() -> None:
    ids = of_integers()
    src, dst = ids.admit_links(np.array([50, 10]), np.array([60, 50]))
    assert (src.tolist(), dst.tolist()) == ([4, 1], [5, 4])
    assert ids.find(np.array([60, 50]), "src").tolist() == [5, 4]
    assert ids.destinations().tolist() == [0, 1, 2, 4, 5]
    raw = ids.raw_of(np.array([5, 0, 4]))
    assert (raw.tolist(), raw.dtype) == ([60, 30, 50], np.int64)


def test_whoever_is_unknown_is_a_stranger_by_role_and_stays_one() -> None:
    ids = of_integers()
    assert list(ids.unknown) == [7, 8]
    src, dst = ids.find_links(np.array([50, 10, 60]), np.array([60, 20, 50]))
    assert (src.tolist(), dst.tolist()) == ([7, 1, 7], [8, 2, 8])
    assert ids.find_sources(np.array([50, 10])).tolist() == [7, 1]
    assert ids.find(np.array([50]), "src").tolist() == [UNKNOWN]
    assert not ids.newcomers


@pytest.mark.parametrize("dst", [np.array([50, 60]), np.array(["50", "60"]), np.array([50.0, 60.0])])
def test_a_stranger_that_meets_itself_is_one_node(dst: np.ndarray) -> None:
    src, found = of_integers().find_links(np.array([50, 50]), dst)
    assert (src.tolist(), found.tolist()) == ([7, 7], [7, 8])
    src, found = RawIds(TWO_SPACES, first_new=3, capacity=0).find_links(np.array([50, 50]), dst)
    assert (src.tolist(), found.tolist()) == ([3, 3], [4, 4])


def test_beyond_the_capacity_nobody_is_admitted_though_all_are_found() -> None:
    ids = of_integers(capacity=1)
    with refused():
        ids.admit_links(np.array([50]), np.array([60]))
    assert not ids.newcomers
    ids.admit_links(np.array([50]), np.array([50]))
    with refused():
        ids.admit_links(np.array([60]), np.array([10]))
    many = np.arange(100, 2100)
    src, dst = ids.find_links(many, np.full(2000, 50))
    assert (set(src.tolist()), set(dst.tolist())) == ({5}, {4})


def test_ids_of_nineteen_digits_are_ids_as_long_as_they_fit_64_bits() -> None:
    largest = 2**63 - 1
    ids = RawIds(pa.table({"raw_id": [largest, 1234567890123456789]}), first_new=2, capacity=1)
    asked = np.array([str(largest), "1234567890123456789", str(largest + 1)], object)
    assert ids.find(asked, "src").tolist() == [0, 1, UNKNOWN]


def test_whole_numbers_that_became_fractions_are_ids_and_others_are_refused() -> None:
    assert of_integers().find(np.array([10.0, 30.0]), "src").tolist() == [1, 0]
    for wrong in (10.5, np.nan):
        with refused():
            of_integers().find(np.array([10.0, wrong]), "src")


@pytest.mark.parametrize("wrong", [None, np.nan, True, b"7", 1.5, ("a",)])
@pytest.mark.parametrize("side", [0, 1])
def test_what_is_no_name_is_refused_and_nobody_is_admitted(wrong: object, side: int) -> None:
    wrongly = np.empty(2, object)
    wrongly[:] = ["new", wrong]
    ends = [np.array(["7", "b"], object), np.array(["7", "b"], object)]
    ends[side] = wrongly
    for ids in (RawIds(TWO_SPACES, first_new=3, capacity=5), of_integers()):
        with refused():
            ids.admit_links(*ends)
        assert not ids.newcomers


@pytest.mark.parametrize("blank", ["", "  "])
def test_among_text_an_empty_id_is_refused(blank: str) -> None:
    ids = RawIds(TWO_SPACES, first_new=3, capacity=5)
    with refused():
        ids.admit_links(np.array(["b", "new"]), np.array(["7", blank]))
    assert not ids.newcomers
