"""Cluster files: what they may say, and how they are refused."""

import pytest
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.clusters import profile_for
from dlcca.clusters.profile import KINDS, Existing, Kubernetes, Local, Queue, copy_files, included_folder, of, read
from dlcca.errors import SettingsError

SLURM = {"kind": "slurm", "workers": 2}


@pytest.mark.parametrize("file", sorted(included_folder().glob("*.toml")), ids=lambda file: file.stem)
def test_every_ready_file_is_read(file):
    assert read(file).kind == file.stem


def test_there_is_a_ready_file_for_every_kind():
    assert {file.stem for file in included_folder().glob("*.toml")} == set(KINDS)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({}, "kind is missing; it is one of local, existing, slurm"),
        ({"kind": "slrum"}, "kind = 'slrum' is not known; did you mean 'slurm'?"),
        ({**SLURM, "walltime": 60}, "walltime is not a key of a slurm cluster; did you mean 'walltime_min'?"),
        ({**SLURM, "qeue": "a"}, "did you mean 'queue'?"),
        ({"kind": "slurm"}, "neither workers nor max_workers is set"),
        ({**SLURM, "max_workers": 4}, "set either it, or min_workers and max_workers"),
        ({"kind": "slurm", "min_workers": 4}, "both bounds are needed"),
        ({"kind": "slurm", "min_workers": 4, "max_workers": 2}, "max_workers = 2 is below min_workers = 4"),
        ({**SLURM, "workers": 0}, "workers = 0; a whole number of at least 1"),
        ({**SLURM, "workers": True}, "workers = True; a whole number"),
        ({**SLURM, "workers": 2.5}, "workers = 2.5; a whole number"),
        ({**SLURM, "cores": "4"}, "cores = '4'; a whole number"),
        ({**SLURM, "memory_gib": -1}, "memory_gib = -1; a number above 0"),
        ({**SLURM, "memory_gib": float("nan")}, "memory_gib = nan; a number above 0"),
        ({**SLURM, "walltime_min": 1}, "walltime_min = 1; at least 2 minutes"),
        ({**SLURM, "walltime_min": "01:00:00"}, "walltime_min = '01:00:00'; at least 2 minutes"),
        ({**SLURM, "tcp_timeout_s": 10}, "tcp_timeout_s = 10; more than 10 s"),
        ({**SLURM, "tcp_timeout_s": "30s"}, "tcp_timeout_s = '30s'; more than 10 s"),
        ({**SLURM, "if_all_lost": "cry"}, "if_all_lost = 'cry' is not known; known are wait, stop"),
        ({**SLURM, "setup": "module load python"}, "a list of single lines is needed"),
        ({**SLURM, "setup": ["a\nb"]}, "a list of single lines is needed"),
        ({**SLURM, "queue": 3}, "queue = 3; a text that is not empty is needed"),
        ({**SLURM, "queue": ""}, "queue = ''; a text that is not empty is needed"),
        ({**SLURM, "account": "me\n#SBATCH --uid=0"}, "one word without blanks"),
        ({**SLURM, "scratch": "/tmp; rm x"}, "one word without blanks"),
        ({**SLURM, "dashboard": "yes"}, "dashboard = 'yes'; true or false is needed"),
        ({"kind": "existing"}, "address is missing"),
        ({"kind": "existing", "address": "host:8786"}, "a protocol is needed"),
        ({"kind": "existing", "address": "tls://h:1", "ca_file": "a"}, "TLS needs ca_file, cert_file and key_file"),
        ({"kind": "kubernetes", "workers": 1}, "image is missing"),
        ({"kind": "cloud", "workers": 1, "image": "x", "provider": "amazon"}, "provider = 'amazon' is not known"),
        ({"kind": "local", "workers": 0}, "workers = 0"),
        ({"kind": "local", "address": "tcp://x:1"}, "address is not a key of a local cluster"),
    ],
)
def test_what_makes_no_sense_is_refused(content, complaint):
    with pytest.raises(SettingsError) as refused:
        of(content)
    assert complaint in str(refused.value)


def test_a_file_that_is_no_toml_or_not_there_is_refused_by_name(tmp_path):
    (tmp_path / "broken.toml").write_text("kind = ")
    with pytest.raises(SettingsError, match=r"broken\.toml is not TOML"):
        read(tmp_path / "broken.toml")
    with pytest.raises(SettingsError, match=r"missing\.toml cannot be read"):
        read(tmp_path / "missing.toml")


def test_a_refusal_ends_a_run_with_exit_code_2_before_anything_starts(tmp_path):
    (tmp_path / "c.toml").write_text('kind = "slurm"\nworkers = 1\nwaltime_min = 3')
    done = CliRunner().invoke(app, ["cluster", "check", str(tmp_path / "c.toml")])
    assert done.exit_code == 2
    assert f"{tmp_path / 'c.toml'}: waltime_min is not a key of a slurm cluster; did you mean 'walltime_min'?" in (
        done.output
    )


def test_files_of_certificates_are_relative_to_the_cluster_file(tmp_path):
    lines = ['kind = "existing"', 'address = "tls://h:1"', *(f'{k}_file = "{k}.pem"' for k in ("ca", "cert", "key"))]
    (tmp_path / "c.toml").write_text("\n".join(lines))
    profile = read(tmp_path / "c.toml")
    assert (profile.ca_file, profile.key_file) == (str(tmp_path / "ca.pem"), str(tmp_path / "key.pem"))


def test_what_the_command_line_says_stands_for_a_profile(tmp_path):
    assert profile_for(None, 3, 2.0) == Local(kind="local", workers=3, memory_gib=2.0)
    assert profile_for("tls://h:8786", None, None) == Existing(kind="existing", address="tls://h:8786")
    assert profile_for("h:8786", None, None) == Existing(kind="existing", address="tcp://h:8786")


def test_workers_come_in_whole_jobs():
    profile = of({"kind": "slurm", "workers": 10, "cores": 4})
    assert isinstance(profile, Queue)
    assert [profile.jobs(n) for n in (0, 1, 4, 5, 10)] == [0, 1, 1, 2, 3]


def test_copies_of_the_ready_files_are_not_written_over(tmp_path):
    done = CliRunner().invoke(app, ["cluster", "profiles", "--out", str(tmp_path / "mine")])
    assert done.exit_code == 0, done.output
    copy = tmp_path / "mine" / "slurm.toml"
    assert copy.read_text() == (included_folder() / "slurm.toml").read_text()
    assert (tmp_path / "mine" / "kubernetes" / "rights.yaml").exists()
    copy.write_text('kind = "slurm"\nworkers = 1')
    copy_files(included_folder(), tmp_path / "mine")
    assert read(copy).workers == 1


def test_kubernetes_has_a_profile_of_its_own():
    assert isinstance(of({"kind": "kubernetes", "workers": 1, "image": "i"}), Kubernetes)
