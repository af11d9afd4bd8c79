"""The sprig functions that give another result each time: what Go promises about them, and what their output is good for."""

from __future__ import annotations

import base64
import re
import uuid

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from muster.gotemplate import Template
from muster.gotemplate.sprig import SPRIG, blowfish

SHEET = """
hello uuidv4 now list tuple coalesce concat all any add addf dict cat quote squote dig seq keys compact initial
rest reverse uniq sortAlpha toStrings deepCopy first last empty add1f ceil float64 floor int add1 int64
toDecimal ago duration durationRound htmlDate kindOf toJson toPrettyJson toRawJson toString typeOf mustCompact
mustInitial mustRest mustReverse mustUniq mustDeepCopy mustFirst mustLast mustToJson mustToPrettyJson
mustToRawJson without mustWithout slice mustSlice default divf maxf minf mulf subf biggest max min mul append
prepend push mustAppend mustPrepend mustPush deepEqual has mustHas div mod sub ternary round htmlDateInZone
until randAlpha randAlphaNum randAscii randNumeric randBytes chunk mustChunk randInt untilStep substr abbrevboth
abbrev indent nindent repeat trunc wrap wrapWith values urlJoin merge mustMerge mergeOverwrite
mustMergeOverwrite omit pick get hasKey unset set semver fromJson mustFromJson fail isAbs osIsAbs atoi urlParse
adler32sum b32dec b32enc b64dec b64enc base bcrypt camelcase clean dir ext genPrivateKey getHostByName initials
kebabcase lower nospace osBase osClean osDir osExt regexQuoteMeta sha1sum sha256sum sha512sum shuffle snakecase
swapcase title trim untitle upper pluck kindIs typeIs typeIsLike date join dateInZone date_in_zone
mustRegexMatch semverCompare buildCustomCert decryptAES encryptAES mustRegexFind mustToDate toDate splitList
contains hasPrefix hasSuffix regexMatch split htpasswd regexFind trimAll trimall trimPrefix trimSuffix splitn
genCAWithKey genCA regexFindAll regexSplit mustRegexFindAll mustRegexSplit plural regexReplaceAll
regexReplaceAllLiteral mustRegexReplaceAll mustRegexReplaceAllLiteral replace dateModify date_modify
mustDateModify must_date_modify unixEpoch derivePassword genSelfSignedCert genSelfSignedCertWithKey
genSignedCert genSignedCertWithKey
"""


def render(text: str) -> str:
    return Template(text).render({})


def test_every_function_of_the_sheet_exists_and_no_other() -> None:
    assert sorted(SPRIG) == sorted(SHEET.split())
    assert len(SPRIG) == 209


@pytest.mark.parametrize(
    ("call", "pattern"),
    [
        ("randAlpha 12", "[A-Za-z]{12}"),
        ("randAlphaNum 12", "[A-Za-z0-9]{12}"),
        ("randNumeric 12", "[0-9]{12}"),
        ("randAscii 12", "[ -~]{12}"),
        ("randAlpha 0", ""),
        ("randInt 5 6", "5"),
        ("now | unixEpoch", "[0-9]{10,}"),
        ('now | date "2006-01-02"', r"\d{4}-\d\d-\d\d"),
        ("now", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4} \S+ m=\+\d+\.\d{9}"),
        ("ago 0", r"\d+h\d+m\d+s"),
        ("ago now", "0s"),
        ("htmlDate now", r"\d{4}-\d\d-\d\d"),
    ],
)
def test_random_and_current_values_have_their_form(call: str, pattern: str) -> None:
    assert re.fullmatch(pattern, render("{{ " + call + " }}"))


def test_uuids_are_version_4_and_differ() -> None:
    first, second = render("{{ uuidv4 }}"), render("{{ uuidv4 }}")
    assert first != second
    assert uuid.UUID(first).version == 4


def test_random_bytes_come_as_base64() -> None:
    assert len(base64.b64decode(render("{{ randBytes 9 }}"))) == 9


def test_shuffle_keeps_the_letters() -> None:
    assert sorted(render('{{ shuffle "héllo wörld" }}')) == sorted("héllo wörld")


def test_encryption_comes_back() -> None:
    assert render('{{ encryptAES "secret" "héllo" | decryptAES "secret" }}') == "héllo"


def test_bcrypt_hashes_as_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    # A published test vector, by the system's crypt if there is one and by our own cipher.
    known = "$2a$04$zVHmKQtGGQob.b/Nc7l9NO8UlrYcW05FiuCj/SxsFO/ZtiN9.mNzy"
    salt = bytes.fromhex("dd1f5092bdc2422c8f703dd9f5dfb54f")
    system = blowfish.bcrypt(b"U*U", salt, 4)
    monkeypatch.setattr(blowfish, "_system_crypt", lambda: None)
    assert blowfish.bcrypt(b"U*U", salt, 4) == system
    assert len(system) == len(known)


def test_htpasswd_is_user_and_hash() -> None:
    assert re.fullmatch(r"ada:\$2a\$10\$[./A-Za-z0-9]{53}", render('{{ htpasswd "ada" "pw" }}'))


@pytest.mark.parametrize(("kind", "header"), [("ecdsa", "EC PRIVATE KEY"), ("ed25519", "PRIVATE KEY"), ("dsa", "DSA PRIVATE KEY")])
def test_private_keys_are_pem_of_their_kind(kind: str, header: str) -> None:
    pem = render('{{ genPrivateKey "' + kind + '" }}')
    assert pem.startswith(f"-----BEGIN {header}-----\n")
    if kind != "dsa":
        load_pem_private_key(pem.encode(), None)


def test_a_certificate_is_signed_by_its_authority() -> None:
    text = """
    {{- $key := genPrivateKey "ecdsa" -}}
    {{- $ca := genCAWithKey "my-ca" 30 $key -}}
    {{- $cert := genSignedCertWithKey "svc" (list "10.0.0.1") (list "svc.local" "svc") 7 $ca $key -}}
    {{- $ca.Cert }}{{ $cert.Cert }}{{ kindOf $cert }} {{ typeOf $cert }}"""
    output = render(text)
    authority, certificate = x509.load_pem_x509_certificates(output.encode())
    certificate.verify_directly_issued_by(authority)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["svc.local", "svc"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days == 7
    assert output.endswith("struct sprig.certificate")


def test_a_custom_certificate_comes_back_decoded() -> None:
    text = """
    {{- $c := genSelfSignedCertWithKey "x" nil nil 1 (genPrivateKey "ecdsa") -}}
    {{- $b := buildCustomCert (b64enc $c.Cert) (b64enc $c.Key) }}{{ eq $b.Cert $c.Cert }} {{ eq $b.Key $c.Key }}"""
    assert render(text) == "true true"


def test_localhost_has_an_address() -> None:
    assert render('{{ getHostByName "localhost" }}') in ("127.0.0.1", "::1")
