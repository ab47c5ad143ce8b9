"""What was understood is said; what is implausible is refused with both remedies, and taken with --yes."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from data_prep.__main__ import main
from tests.support.command_line import convert, describe, refusal, run_here
from tests.support.raw_files import GOOD, refuse
from tpnet_dist.events import EventLog

RATINGS = "".join(f"{i % 50},{1000 + i % 70},{1 + i % 5},{1_700_000_000 + 60 * i}\n" for i in range(5000))
SHOP = "user,item,time\n7,7,10\n7,8,11\n"
MILLISECONDS = "src,dst,time\n" + "".join(f"1,2,{1_700_000_000_000 + 1000 * i}\n" for i in range(9))
YEARS = "src,dst,year\n" + "".join(f"{i % 9},{i % 7},{1990 + i // 100}\n" for i in range(2000))


SCORES = "".join(f"{i % 50},{1000 + i % 70},{i * 37 % 100},{1_700_000_000 + 60 * i}\n" for i in range(5000))
DATED = "".join(f"{i % 50},{1000 + i % 70},{1 + i % 5},2023-01-{1 + i // 200:02}\n" for i in range(5000))
DAYS = "src,dst,date\n" + "".join(f"{i % 9},{i % 7},{20230101 + i // 100}\n" for i in range(2000))
EPOCH_DAYS = "src,dst,day\n" + "".join(f"{i % 9},{i % 7},{19_000 + i // 2}\n" for i in range(2000))
EPOCH_HOURS = "src,dst,time\n" + "".join(f"{i % 9},{i % 7},{480_000 + i // 2}\n" for i in range(2000))
TRUST = "".join(f"{i % 50},{1000 + i % 70},{i % 21 - 10},{1_700_000_000 + 60 * i}\n" for i in range(5000))
MOVIES = "userId,movieId,rating,timestamp\n7,7,4.5,1700000000\n7,8,3.0,1700000060\n"
NUMBERED = "".join(f"{i},{i % 7},{i % 11},{1_700_000_000 + 60 * i}\n" for i in range(50))
LONG = "src,dst,time\n1,2,0\n2,3,3000000000\n"


@pytest.mark.parametrize(
    ("text", "flags", "fragment", "instead"),
    [
        pytest.param(RATINGS, "", "column 2 is taken for the time", "--time 3", id="a rating as time"),
        pytest.param(RATINGS, "--sort", "while column 3", "--time 3", id="a rating, sorted"),
        pytest.param(SCORES, "--sort", "hold 100 small values", "--time 3", id="a score of 100 as time"),
        pytest.param(DATED, "--sort", "looks like a time", "--time 3 --time-unit iso", id="a rating, dates"),
        pytest.param(
            NUMBERED,
            "--time 3",
            "column 0 is taken for the source, but numbers the rows",
            "--src 1 --dst 2 --time 3",
            id="row numbers as sources",
        ),
        pytest.param(DAYS, "", "look like days", "--time-format %Y%m%d", id="days as seconds"),
        pytest.param(
            EPOCH_DAYS, "", "days since 1970 (2022-01-08 to", "--time-step 86400", id="days of 1970"
        ),
        pytest.param(EPOCH_HOURS, "", "hours since 1970 (2024-10", "--time-step 3600", id="hours of 1970"),
        pytest.param(MOVIES, "", "'userId' and 'movieId'", "--bipartite", id="the columns of MovieLens"),
        pytest.param(SHOP, "", "'user' and 'item' look like two kinds", "--bipartite", id="users and items"),
        pytest.param(SHOP, "", "or --one-id-space", "--one-id-space", id="users among items"),
        pytest.param(
            SHOP.replace("user", "customer_id").replace("item", "productId"),
            "--src customer_id --dst productId",
            "pass --bipartite",
            "--src customer_id --dst productId --bipartite",
            id="customers and products",
        ),
        pytest.param(
            MILLISECONDS,
            "",
            "look like milliseconds since 1970 (2023-11-14",
            "--time-unit ms",
            id="milliseconds",
        ),
        pytest.param(
            MILLISECONDS,
            "--time-unit us",
            "look like milliseconds",
            "--time-unit ms",
            id="milliseconds as finer",
        ),
        pytest.param(LONG, "", "span 95.1 years, more than 80 years", "--time-unit ms", id="a long span"),
        pytest.param(
            YEARS,
            "--time year",
            "2,000 events span 19 seconds",
            "--time year --time-step 31557600",
            id="years as seconds",
        ),
    ],
)
def test_an_implausible_reading_is_refused_and_both_remedies_help(
    tmp_path: Path, text: str, flags: str, fragment: str, instead: str
) -> None:
    sentence = refuse(tmp_path, text, *flags.split())
    assert fragment in sentence and "--yes" in sentence, sentence
    convert(tmp_path / "log.csv", tmp_path / "instead", *instead.split())
    convert(tmp_path / "log.csv", tmp_path / "as-it-is", *flags.split(), "--sort", "--yes")


@pytest.mark.parametrize(
    ("times", "last"),
    [
        pytest.param([19_000 + 2 * n for n in range(2000)], 22_998, id="every other second"),
        pytest.param([10_000 + n for n in range(2000)], 11_999, id="numbers in a row"),
        pytest.param([201_801 + 100 * (n // 480) + n // 40 % 12 for n in range(3360)], 202_412, id="months"),
    ],
)
def test_what_may_be_something_else_is_not_taken_for_days_or_hours(
    tmp_path: Path, times: list[int], last: int
) -> None:
    lines = [f"{n % 9},{n % 7},{time}\n" for n, time in enumerate(times)]
    (tmp_path / "log.csv").write_text("src,dst,time\n" + "".join(lines))
    convert(tmp_path / "log.csv", tmp_path / "out")
    assert EventLog(tmp_path / "out").manifest.last_time == last


def test_ratings_below_zero_are_seen_not_to_be_times(tmp_path: Path) -> None:
    sentence = refuse(tmp_path, TRUST)
    assert "column 2 is taken for the time" in sentence and "pass --time 3" in sentence, sentence
    convert(tmp_path / "log.csv", tmp_path / "instead", "--time", "3")


def test_a_rating_may_be_taken_as_time_on_purpose(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    raw.write_text(RATINGS)
    convert(raw, tmp_path / "out", "--sort", "--yes")
    assert EventLog(tmp_path / "out").manifest.last_time == 5


def test_one_id_space_and_two_are_what_they_say(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    raw.write_text(SHOP)
    convert(raw, tmp_path / "one", "--one-id-space")
    convert(raw, tmp_path / "two", "--bipartite")
    assert (describe(tmp_path / "one")["nodes"], describe(tmp_path / "two")["nodes"]) == (2, 3)
    assert "exclude each other" in refusal("convert", raw, tmp_path / "x", "--bipartite", "--one-id-space")


def test_what_was_understood_is_said(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    raw.write_text(
        "who,whom,when,note,w\n" + "".join(f"{i},{i + 1},{1_700_000_000 + i},x,0.5\n" for i in range(9))
    )
    flags = ["--src", "who", "--dst", "whom", "--time", "when", "--features", "w"]
    done = run_here(main, "convert", raw, tmp_path / "out", *flags)
    said = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert said[1:8] == [
        "source who: 0, 1, 2",
        "destination whom: 1, 2, 3",
        "time when (seconds): 1700000000, 1700000001, 1700000002",
        "feature w: 0.5, 0.5, 0.5",
        "not used note",
        "times 2023-11-14 22:13:20 UTC to 2023-11-14 22:13:28 UTC (seconds since 1970), a span of 8 seconds",
        "ids one id space: 10 nodes, 8 on both sides",
    ]
    again = run_here(main, "describe", tmp_path / "out").stdout
    for word in ("who", "whom", "when", "note", "log.csv", "8 on both sides", "1, 2, 3", "0.5, 0.5, 0.5"):
        assert word in again, again


def test_ids_of_two_spaces_are_counted_where_both_have_them(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(SHOP)
    done = run_here(main, "convert", tmp_path / "log.csv", tmp_path / "out", "--bipartite")
    assert "1 sources, 2 destinations, 1 ids on both sides are two nodes each" in done.stdout


def test_unused_columns_of_any_file_are_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text("src,dst,time,later\n1,2,13,x\n")
    done = run_here(main, "convert", tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "out")
    assert f"later, in {tmp_path / 'b.csv'}" in done.stdout


def test_columns_of_another_order_are_not_taken_by_position(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,src,dst\n10,1,2\n")
    (tmp_path / "b.csv").write_text("11,2,3\n")
    sentence = refusal("convert", tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "out")
    assert "has no line of column names" in sentence


def test_a_separator_of_two_characters_is_refused(tmp_path: Path) -> None:
    assert "has one column, '1::2::5::17" in refuse(tmp_path, "1::2::5::1700000000\n1::3::4::1700000001\n")


def test_whole_numbers_written_with_a_point_are_refused_as_ids(tmp_path: Path) -> None:
    text = "src,dst,time\n1.0,2,3\n2.0,1,4\n"
    sentence = refuse(tmp_path, text)
    assert "such as 1.0 are taken as text" in sentence and "--yes" in sentence
    convert(tmp_path / "log.csv", tmp_path / "out", "--yes")
    assert describe(tmp_path / "out")["nodes"] == 4


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_word_for_a_missing_id_is_an_id_if_said_and_remains_one(tmp_path: Path, kind: str) -> None:
    log, out = tmp_path / f"log.{kind}", tmp_path / "out"
    write_trips(log, ["DE", "FR", "NA"], ["FR", "NA", "DE"], first_time=1)
    assert "line 3" in (sentence := refusal("convert", log, out)) or "row 2" in sentence
    assert "'NA' may stand for a missing one" in sentence and "--yes" in sentence
    done = run_here(main, "convert", log, out, "--yes")
    assert "ids that may stand for missing ones: NA" in done.stdout
    write_trips(log, ["NA"], ["DE"], first_time=9)
    run_here(main, "append", log, out)
    write_trips(log, ["NA"], ["nan"], first_time=10)
    assert "'nan' may stand" in refusal("append", log, out)
    assert (describe(out)["events"], describe(out)["nodes"]) == (4, 3)


def write_trips(path: Path, src: list[str], dst: list[str], first_time: int) -> None:
    table = pa.table({"src": src, "dst": dst, "time": range(first_time, first_time + len(src))})
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)


def test_one_id_that_makes_text_of_whole_numbers_is_named(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    raw.write_text(GOOD + "12a,3,13\n")
    remark = '1 of 4 no plain whole number: "12a"'
    assert f"text: {remark}" in run_here(main, "convert", raw, tmp_path / "out").stdout
    assert remark in run_here(main, "describe", tmp_path / "out").stdout
    assert describe(tmp_path / "out")["ids"] == "text"
    raw.write_text("src,dst,time\n" + "".join(f"{n},page{n % 3},{n}\n" for n in range(9)))
    convert(raw, tmp_path / "two", "--bipartite")
    assert describe(tmp_path / "two")["odd_ids"] == "", "sides have ids of their own kinds"


def test_a_first_event_with_a_date_is_not_taken_for_names(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("ann,bob,14/11/2023\nbob,cid,15/11/2023\n")
    flags = ["--src", "0", "--dst", "1", "--time", "2", "--time-format", "%d/%m/%Y"]
    convert(tmp_path / "log.csv", tmp_path / "out", *flags)
    assert len(EventLog(tmp_path / "out")) == 2


def test_ids_may_begin_with_a_mark_of_comments(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("#a,#b,3\n#b,#c,4\n")
    convert(tmp_path / "log.csv", tmp_path / "out")
    assert len(EventLog(tmp_path / "out")) == 2


def test_a_dry_run_says_it_and_writes_nothing(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    raw.write_text(GOOD)
    done = run_here(main, "convert", raw, tmp_path / "a" / "out", "--dry-run")
    assert done.returncode == 0
    assert "3 nodes, 3 on both sides" in done.stdout
    assert list(tmp_path.iterdir()) == [raw]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('src,dst,time,note\n1,2,3,a\n1,2,4,"open\n1,2,5,b\n1,2,6,c\n', 3, id="never closed"),
        pytest.param('src,dst,time,note\n1,2,3,a\n1,2,4,"open\n1,2,5,b\n1,2,6,"c\n', 3, id="two of them"),
        pytest.param(
            'src,dst,time,note\r\n1,2,3,"a\r\nb"\r\n1,2,4,"open\r\n1,2,5,b', 4, id="after a good one"
        ),
        pytest.param('1,2,3,"a\n1,2,4,b\n', 1, id="in the first row"),
        pytest.param('src,dst,time,note\n1,2,3,a\n1,2,4,"open', 3, id="in the last row"),
        pytest.param('src,dst,time,"note\n1,2,3,a\n1,2,4,b\n', 1, id="in the header"),
        pytest.param('src,dst,time,note\n1,2,3,"a\n1,2,4,b\n1,2,5,c"\n1,2,6,d\n', 2, id="of two rows"),
        pytest.param('src,dst,time,note\n1,2,3,a\n"1,2,4,b\n1",2,5,c\n', 3, id="of two rows that follow"),
    ],
)
def test_a_quote_that_swallows_rows_is_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    assert f"line {line}: " in refuse(tmp_path, text)


def test_values_of_several_lines_are_read(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    text = '1,2,3,"a\n\nb, ""c"""\n1,2,4,5" pipe\n1,2,5,"good\nslow, late, rude, never again"\n'
    raw.write_text(f"src,dst,time,note\n{text}")
    convert(raw, tmp_path / "out")
    assert len(EventLog(tmp_path / "out")) == 3


def test_a_row_longer_than_a_block_is_refused_and_its_open_quote_named(tmp_path: Path) -> None:
    row = f"1,2,4,{'x' * (40 << 20)}\n"
    assert "takes more than 16 MiB" in refuse(tmp_path, f"src,dst,time,note\n1,2,3,a\n{row}")
    assert "line 3: a quote is opened" in refuse(tmp_path, f'src,dst,time,note\n1,2,3,a\n1,2,3,"a\n{row}')


def test_a_large_blank_block_is_passed_over(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    raw.write_bytes(b"src,dst,time\n1,2,3\n" + b"\n" * (40 << 20) + b"1,2,4\n")
    convert(raw, tmp_path / "out")
    assert len(EventLog(tmp_path / "out")) == 2


@pytest.mark.parametrize("unit", [[], ["--time-unit", "iso"]])
@pytest.mark.parametrize(
    ("date", "form"),
    [
        pytest.param("Tue Nov 14 22:17:00 +0000 2023", "%a %b %d %H:%M:%S %z %Y", id="Twitter"),
        pytest.param('"Tue, 14 Nov 2023 22:17:00 +0000"', "%a, %d %b %Y %H:%M:%S %z", id="mail"),
        pytest.param("14/Nov/2023:22:17:00 +0000", "%d/%b/%Y:%H:%M:%S %z", id="web servers"),
        pytest.param("Tue Nov 14 22:17:00 2023", "%a %b %d %H:%M:%S %Y", id="C"),
    ],
)
def test_a_form_of_dates_that_is_known_is_named(
    tmp_path: Path, date: str, form: str, unit: list[str]
) -> None:
    assert f"pass --time-format '{form}'" in refuse(tmp_path, f"src,dst,time\n1,2,{date}\n", *unit)
    convert(tmp_path / "log.csv", tmp_path / "out", "--time-format", form)
    assert EventLog(tmp_path / "out").manifest.last_time == 1_700_000_220


@pytest.mark.parametrize("unit", [[], ["--time-unit", "iso"]])
def test_a_date_with_slashes_is_called_what_it_is(tmp_path: Path, unit: list[str]) -> None:
    sentence = refuse(tmp_path, "src,dst,time\n1,2,14/11/2023 22:17\n", *unit)
    assert "1970" not in sentence
    assert "--time-format '%d/%m/%Y %H:%M'" in sentence


def test_equal_column_names_are_refused(tmp_path: Path) -> None:
    assert "2 columns 'dst'" in refuse(tmp_path, "src,dst,time,dst\n1,2,3,4\n")
