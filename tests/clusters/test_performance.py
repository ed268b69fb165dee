"""Dask's own report of a run: kept where bokeh is installed, and missed without harm where it is not."""

from importlib.util import find_spec

import pytest
from distributed import Client, LocalCluster

from dlcca.clusters import dask_config


@pytest.fixture
def client():
    threads = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**threads) as cluster, Client(cluster, set_as_default=False) as opened:
        yield opened


def double(x):
    return 2 * x


def test_without_bokeh_it_is_said_and_the_work_is_done(client, monkeypatch):
    monkeypatch.setattr(dask_config, "find_spec", lambda name: None)
    kept, said = [], []
    with dask_config.reported(client, kept.append, said.append):
        assert client.submit(double, 4).result() == 8
    assert kept == []
    assert said == [f"{dask_config.LACKING}."]
    assert "pip install bokeh" in said[0]


@pytest.mark.skipif(find_spec("bokeh") is not None, reason="needs a scheduler without bokeh")
def test_a_scheduler_that_cannot_make_one_is_told_and_the_work_is_done(client, monkeypatch):
    monkeypatch.setattr(dask_config, "find_spec", lambda name: name)  # as if it were installed here, and not there
    kept, said = [], []
    with dask_config.reported(client, kept.append, said.append):
        assert client.submit(double, 4).result() == 8
    assert kept == []
    assert len(said) == 1
    assert "performance report is not kept" in said[0]


def test_with_bokeh_a_page_is_kept(client):
    pytest.importorskip("bokeh", reason="the report is drawn by bokeh: pip install bokeh")
    kept, said = [], []
    with dask_config.reported(client, kept.append, said.append):
        assert client.submit(double, 4).result() == 8
    assert said == []
    (page,) = kept
    assert b"<html" in page
    assert b"Task Stream" in page


def test_of_work_that_fails_there_is_no_page(client):
    kept = []
    with pytest.raises(KeyError), dask_config.reported(client, kept.append, lambda text: None):
        raise KeyError
    assert kept == []
