"""CSV: what the header says, what rows are refused for, and reading without parsing it all."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import csv_table, open_recording
from tests.recordings.formats.reading import all_of, in_pieces, sent
from tests.support.recordings import shared


def written(tmp_path, text, name="x.csv"):
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return tmp_path / name


def rows(n=20, line="{t},{i},{j}"):
    return "\n".join(line.format(t=i / 100, i=i, j=-i) for i in range(n)) + "\n"


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(csv_table, "_BLOCK_BYTES", 300)


def test_what_pandas_writes_comes_back_block_by_block(tmp_path, small_blocks):
    table = pd.DataFrame(np.random.default_rng(0).standard_normal((500, 3)), columns=["a", "b", "c"])
    table.insert(0, "time", np.arange(500) / 256)
    table.to_csv(tmp_path / "x.csv", index=False)
    (signal,) = open_recording(tmp_path / "x.csv").signals
    assert len(signal.source.offsets) > 50
    assert (signal.rate, signal.n, signal.names) == (256, 500, ["a", "b", "c"])
    np.testing.assert_array_equal(in_pieces(signal), table[["a", "b", "c"]])
    np.testing.assert_array_equal(sent(signal).read(123, 321, [2, 0]), table[["c", "a"]][123:321])


def test_a_read_parses_only_the_blocks_it_needs(tmp_path, small_blocks, monkeypatch):
    (signal,) = open_recording(written(tmp_path, "time,a,b\n" + rows(1000))).signals
    parsed = []
    parse = csv_table.CsvTable._parse
    monkeypatch.setattr(
        csv_table.CsvTable, "_parse", lambda self, block, *rest: (parsed.append(block), parse(self, block, *rest))[1]
    )
    signal.read(500, 510, [0])
    signal.read(510, 512, [0])
    assert len(parsed) <= 2
    assert parsed == sorted(set(parsed))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("time,a,b\n" + rows(), "x.csv"),
        ("time,a,b\r\n" + rows().replace("\n", "\r\n"), "x.csv"),
        ("\ufefftime,a,b\n" + rows(), "x.csv"),
        ("# a comment\n\ntime,a,b\n" + rows().replace("\n", "\n\n"), "x.csv"),
        ("time\ta\tb\n" + rows(line="{t}\t{i}\t{j}"), "x.tsv"),
        ("time;a;b\n" + rows(line="{t};{i};{j}").replace(".", ","), "x.csv"),
        ('"time","a","b"\n' + rows(line='"{t}","{i}","{j}"'), "x.csv"),
        ("time,a,b,\n" + rows(line="{t},{i},{j},"), "x.csv"),
        ("time,a,b\n" + rows(line="{t}, {i}, {j}").rstrip("\n"), "x.csv"),
        ("time,a,b\n" + rows(line="{t},+{i},{j}"), "x.csv"),
        (",time,a,b\n" + rows(line="{i},{t},{i},{j}"), "x.csv"),
        ("a,label,time,b\n" + rows(line="{i},walk,{t},{j}"), "x.csv"),
        ("a,time_ms,b\n" + "".join(f"{i},{10 * i},{-i}\n" for i in range(20)), "x.csv"),
        ("a,Time [ms],b\n" + "".join(f"{i},{10 * i},{-i}\n" for i in range(20)), "x.csv"),
    ],
)
def test_the_same_table_is_read_however_it_is_written(tmp_path, text, name):
    (signal,) = open_recording(written(tmp_path, text, name)).signals
    assert (signal.names, signal.rate) == (["a", "b"], 100)
    np.testing.assert_array_equal(all_of(signal), np.outer(np.arange(20), [1, -1]))


def test_other_columns_of_the_block_that_is_kept_are_parsed_anew(tmp_path):
    (signal,) = open_recording(written(tmp_path, "a,b\n" + rows(line="{i},{j}")), rate=1).signals
    for columns in ([0], [1], [1, 0], [0]):
        np.testing.assert_array_equal(signal.read(5, 9, columns), np.outer(np.arange(5, 9), [1, -1])[:, columns])


def test_units_stand_in_the_header_and_a_rate_may_stand_above_it(tmp_path):
    (signal,) = open_recording(written(tmp_path, "# fs: 250\necg (mV),acc_x [m/s2]\n1,2\n3,4\n")).signals
    assert [(channel.name, channel.unit) for channel in signal.channels] == [("ecg", "mV"), ("acc_x", "m/s2")]
    assert signal.rate == 250


def test_without_a_header_columns_are_numbered(tmp_path):
    (signal,) = open_recording(written(tmp_path, "1,2\n3,4\n"), rate=10).signals
    assert (signal.names, signal.n) == (["0", "1"], 2)
    (signal,) = open_recording(written(tmp_path, "1,2\n3,4\n"), rate=10, header=True).signals
    assert (signal.names, signal.n) == (["1", "2"], 1)


def test_empty_fields_and_nan_are_samples_that_are_missing(tmp_path):
    (signal,) = open_recording(written(tmp_path, "a,b\n1,\nNaN,2\nNA,inf\n"), rate=1).signals
    np.testing.assert_array_equal(all_of(signal), [[1, np.nan], [np.nan, 2], [np.nan, np.inf]])


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
def test_time_stamps_give_the_start_and_the_rate(tmp_path, zone):
    stamps = "".join(f"2024-05-31T22:30:00.{4 * i:03d}{zone},{i}\n" for i in range(50))
    recording = open_recording(written(tmp_path, "when,a\n" + stamps))
    expected = {"": datetime(2024, 5, 31, 22, 30), "Z": datetime(2024, 5, 31, 22, 30, tzinfo=UTC)}
    assert recording.start == expected.get(zone, datetime(2024, 5, 31, 20, 30, tzinfo=UTC))
    assert (recording.signals[0].rate, recording.signals[0].names) == (250, ["a"])


def test_time_stamps_of_another_kind_need_their_format(tmp_path):
    path = written(tmp_path, "when,a\n" + "".join(f"31.05.2024 22:30:{i:02d},{i}\n" for i in range(20)))
    recording = open_recording(path, time_format="%d.%m.%Y %H:%M:%S")
    assert (recording.start, recording.signals[0].rate) == (datetime(2024, 5, 31, 22, 30), 1)
    with pytest.raises(SettingsError, match="time_format"):
        open_recording(path, time_column="when")


def test_breaks_in_time_are_kept(tmp_path, small_blocks):
    text = "time,a\n" + "".join(f"{i / 10},{i}\n" for i in [*range(100), *range(150, 300)])
    first, second = open_recording(written(tmp_path, text)).signals
    assert (first.n, second.n, second.start_s) == (100, 150, 15)
    np.testing.assert_array_equal(in_pieces(second)[:, 0], np.arange(150, 300))


@pytest.mark.parametrize("row", [0, 7, 19])
def test_text_among_numbers_is_refused_with_its_place(tmp_path, small_blocks, row):
    lines = rows().splitlines()
    lines[row] = f"{row / 100},{row},n/m"
    with pytest.raises(DataError, match=rf"row {row + 1} \(line {row + 2}\), column 'b': 'n/m' is not a number"):
        open_recording(written(tmp_path, "time,a,b\n" + "\n".join(lines)))


@pytest.mark.parametrize("fields", ["0.07,7", "0.07,7,8,9"])
def test_a_row_with_other_fields_is_refused_with_its_place(tmp_path, small_blocks, fields):
    lines = rows().splitlines()
    lines[7] = fields
    with pytest.raises(DataError, match=rf"row 8 \(line 9\) has {fields.count(',') + 1} fields, where 3 are needed"):
        open_recording(written(tmp_path, "time,a,b\n" + "\n".join(lines)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("time,a\n1,2\n0.5,3\n", "goes backwards at row 2"),
        ("time,a\n1,2\n,3\n", "has no time at row 2"),
        ("when,a\n2024-01-01,1\n2024-01-02,1\nsoon,1\n", "row 3, time column 'when': 'soon'"),
        ("a,b\n", "no rows"),
        ("\n\n", "no rows"),
        ("time\n1\n2\n", "no column of numbers"),
        (b"PK\0\0\0", "not text"),
        ("a,b\n1,2\n".encode("utf-16"), "not text"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, text, complaint):
    with pytest.raises(DataError, match=complaint):
        open_recording(written(tmp_path, text))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "give rate"),
        ({"time_column": "aa"}, "did you mean 'a'"),
        ({"rate": 1, "delimiter": "::"}, "delimiter"),
        ({"rate": 1, "decimal": "x"}, "decimal"),
        ({"rate": 1, "names": ["q"]}, "1 names were given"),
        ({"time_colum": "a"}, "did you mean 'time_column'"),
        ({"time_column": "a", "time_unit": "weeks"}, "time_unit"),
    ],
)
def test_an_option_that_means_nothing_is_an_error(tmp_path, options, complaint):
    with pytest.raises(SettingsError, match=complaint):
        open_recording(written(tmp_path, "a,b\n1,2\n2,4\n"), **options)


def test_times_that_do_not_matter_are_left_aside(tmp_path):
    (signal,) = open_recording(written(tmp_path, "time,a\n5,1\n4,2\n"), rate=3, time_column=False).signals
    assert (signal.names, signal.rate) == (["time", "a"], 3)


def test_a_table_with_texts_and_a_header_of_three_lines_is_read_past_them():
    (signal,) = open_recording(shared("mirror-mouse", "labelled_frames.csv"), rate=1, skip_rows=2).signals
    assert signal.n == 90
