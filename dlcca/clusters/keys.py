"""Certificates of one run, in private folders: made at its start, readable by their owner only, removed at its end.

Every party of the run (scheduler, workers, client) shows the run's own certificate, and accepts only certificates that
the run's own authority has signed. So a user who cannot read the key can neither send tasks nor read results. The keys
of a cluster of several hosts are files in a folder that they share; those of a local cluster stay in memory.
"""

import datetime
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from distributed import Security

from dlcca.errors import ClusterError
from dlcca.storage.lock import start_of

VALID_DAYS = 90
PREFIX = "keys-"
FILES = ("authority.pem", "certificate.pem", "key.pem")


@contextmanager
def keys_of_run(shared: Path) -> Iterator[Any]:
    """A `distributed.Security` over files in a new folder of ``shared``, which is removed at the end of the block."""
    with private_folder(shared, PREFIX) as folder:
        yield security(*(str(file) for file in write_keys(folder)))


def security(authority: str, certificate: str, key: str) -> Any:
    """A `distributed.Security` with one certificate for every role; each argument is a path, or the PEM text itself."""
    parts = {"cert": certificate, "key": key}
    roles = {f"tls_{role}_{part}": parts[part] for role in ("scheduler", "worker", "client") for part in parts}
    return Security(tls_ca_file=authority, require_encryption=True, **roles)


def write_keys(folder: Path, valid_days: float = VALID_DAYS) -> tuple[Path, Path, Path]:
    """New keys as files that only their owner can read: `make_keys`."""
    authority, certificate, key = (folder / name for name in FILES)
    for file, content in zip((authority, certificate, key), make_keys(valid_days), strict=True):
        with open(file, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as stream:
            stream.write(content)
    return authority, certificate, key


def make_keys(valid_days: float = VALID_DAYS) -> tuple[bytes, bytes, bytes]:
    """An authority that signs once, and what it signed: its certificate, ours, and our key, in PEM form.

    The key of the authority is not kept: nothing else can be signed with it.
    """
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dlcca authority of one run")])
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dlcca run")])
    now = datetime.datetime.now(datetime.UTC)
    ours = authority_key.public_key()

    others = "content_commitment key_encipherment data_encipherment key_agreement crl_sign encipher_only decipher_only"

    def signed(name: x509.Name, public: Any, is_authority: bool) -> bytes:
        # A key either signs certificates or is used in handshakes.
        signs = {"digital_signature": not is_authority, "key_cert_sign": is_authority}
        uses = x509.KeyUsage(**signs, **dict.fromkeys(others.split(), False))
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=max(1, 1 - valid_days)))  # clocks of nodes differ
            .not_valid_after(now + datetime.timedelta(days=valid_days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            # From Python 3.13 on a certificate without these is refused.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ours), critical=False)
            .add_extension(uses, critical=True)
        )
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return signed(issuer, ours, True), signed(subject, key.public_key(), False), secret


def refuse_unusable(ca_file: str, cert_file: str, key_file: str) -> None:
    """An error about unusable certificates that is clearer than that of OpenSSL."""
    for name, file in (("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)):
        if not os.access(file, os.R_OK):
            raise ClusterError(f"{name} = {file} cannot be read; is it there, and yours?")
    for name, file in (("ca_file", ca_file), ("cert_file", cert_file)):
        try:
            certificate = x509.load_pem_x509_certificate(Path(file).read_bytes())
        except ValueError as error:
            raise ClusterError(f"{name} = {file} is not a certificate in PEM form: {error}.") from error
        now = datetime.datetime.now(datetime.UTC)
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if ends < now:
            raise ClusterError(
                f"{name} = {file} expired on {ends:%Y-%m-%d %H:%M} UTC; request a new one from the administrator of "
                "the scheduler."
            )
        if begins > now:
            raise ClusterError(
                f"{name} = {file} is valid only from {begins:%Y-%m-%d %H:%M} UTC; is the clock of this machine right?"
            )


@contextmanager
def private_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder of mode 700 in ``parent``, removed with the block; also removes those that killed runs have left."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_orphans(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{socket.gethostname()}-{os.getpid()}-", dir=parent))  # mode 700
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_orphans(parent: Path, prefix: str) -> None:
    """Remove folders of ours whose process, on this machine, is gone."""
    start = f"{prefix}{socket.gethostname()}-"
    for folder in parent.glob(f"{start}*"):
        number = folder.name.removeprefix(start).split("-")[0]
        with suppress(FileNotFoundError):  # its own process has just removed it
            is_ours = folder.lstat().st_uid == os.geteuid()
            if number.isdigit() and is_ours and start_of(int(number)) is None:
                shutil.rmtree(folder, ignore_errors=True)
