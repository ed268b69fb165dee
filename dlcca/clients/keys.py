"""Certificates of one run: made at its start, in a folder that nobody else can read, and removed at its end.

Every party of the run (scheduler, workers, client) shows the run's own certificate, and accepts nothing that the run's
own authority has not signed. So whoever cannot read the folder can neither send work nor read results.
"""

from __future__ import annotations

import datetime
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dlcca.clients.optional import needs
from dlcca.errors import ClusterError

VALID_DAYS = 90
PREFIX = "keys-"


@contextmanager
def keys_of_run(shared: Path, extra: str) -> Iterator[Any]:
    """A `distributed.Security` over files in a new folder of ``shared``, which all nodes see; gone with the block."""
    with needs("cryptography", extra):
        import cryptography.x509  # noqa: F401
    from distributed import Security

    shared.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_orphans(shared)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{socket.gethostname()}-{os.getpid()}-", dir=shared))  # mode 700
    try:
        authority, certificate, key = write_keys(folder)
        roles = {
            f"tls_{role}_{part}": str(file)
            for role in ("scheduler", "worker", "client")
            for part, file in (("cert", certificate), ("key", key))
        }
        yield Security(tls_ca_file=str(authority), require_encryption=True, **roles)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_orphans(shared: Path) -> None:
    """Remove what runs on this machine left behind that were killed; the processes' numbers tell."""
    for folder in shared.glob(f"{PREFIX}{socket.gethostname()}-*"):
        number = folder.name.removeprefix(f"{PREFIX}{socket.gethostname()}-").split("-")[0]
        if number.isdigit() and not _is_alive(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_keys(folder: Path, valid_days: float = VALID_DAYS) -> tuple[Path, Path, Path]:
    """An authority that signs once, and what it signed: the files of its certificate, of ours, and of our key.

    The authority's own key is never written: nothing else can be signed by it.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dlcca authority of one run")])
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dlcca run")])
    now = datetime.datetime.now(datetime.UTC)
    ours = authority_key.public_key()

    def signed(name: x509.Name, public: Any, is_authority: bool) -> bytes:
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
            .add_extension(_uses(is_authority), critical=True)
        )
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (
        _written(folder / "authority.pem", signed(issuer, ours, True)),
        _written(folder / "certificate.pem", signed(subject, key.public_key(), False)),
        _written(folder / "key.pem", secret),
    )


def _uses(is_authority: bool) -> Any:
    """What a key may be used for: to sign certificates, or to shake hands."""
    from cryptography import x509

    names = "content_commitment key_encipherment data_encipherment key_agreement crl_sign encipher_only decipher_only"
    return x509.KeyUsage(
        digital_signature=not is_authority, key_cert_sign=is_authority, **dict.fromkeys(names.split(), False)
    )


def _written(file: Path, content: bytes) -> Path:
    """The file with its content, which none but its owner may read."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    return file


def refuse_unusable(ca_file: str, cert_file: str, key_file: str) -> None:
    """Say what is wrong with the certificates of a user before Dask does it in the words of OpenSSL."""
    for name, file in (("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)):
        if not os.access(file, os.R_OK):
            raise ClusterError(f"{name} = {file} cannot be read; is it there, and yours?")
    with suppress(ImportError):  # without cryptography the handshake tells, if less clearly
        from cryptography import x509

        for name, file in (("ca_file", ca_file), ("cert_file", cert_file)):
            try:
                certificate = x509.load_pem_x509_certificate(Path(file).read_bytes())
            except ValueError as error:
                raise ClusterError(f"{name} = {file} is not a certificate in PEM form: {error}.") from error
            _refuse_out_of_time(name, file, certificate)


def _refuse_out_of_time(name: str, file: str, certificate: Any) -> None:
    now = datetime.datetime.now(datetime.UTC)
    if certificate.not_valid_after_utc < now:
        raise ClusterError(
            f"{name} = {file} expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; ask whoever runs the "
            "scheduler for a new one."
        )
    if certificate.not_valid_before_utc > now:
        raise ClusterError(
            f"{name} = {file} is valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; is the clock "
            "of this machine right?"
        )
