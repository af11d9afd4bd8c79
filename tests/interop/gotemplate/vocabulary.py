"""The words that generated templates are made of: literals by purpose, and shapes of calls.

In a shape, `<name>` stands for one entry of the pool of that name, and `<string>`, `<map>`, `<list>` and `<any>` for a
generated argument of that type. Strings are written as in a template, between double quotes.
"""

from __future__ import annotations


def words(text: str) -> list[str]:
    """One entry per line; a line of two quotes alone is the empty entry."""
    return ["" if line == "''" else line for line in text.strip("\n").split("\n")]


UNSTABLE = frozenset(
    " ".join(
        words(
            r"""
now ago uuidv4 shuffle bcrypt htpasswd randAlpha randAlphaNum randAscii randNumeric randBytes randInt
genPrivateKey genCA genCAWithKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert genSignedCertWithKey
buildCustomCert encryptAES getHostByName derivePassword keys values htmlDate htmlDateInZone date dateInZone
date_in_zone durationRound and or call slice mustSlice chunk mustChunk repeat until untilStep seq indent nindent
urlParse
"""
        )
    ).split()
)
"""Functions whose result changes from run to run in Go, or that a shape below calls with bounded arguments."""
STRINGS = words(
    r"""
''
a
abc
Hello World
foo_bar-baz
HTTPServer2xx
  padded \x20
x=1,y=2
line1\nline2
tab\there
héllo
日本語
<b>&\"'</b>
12
-7
3.75
0x1F
010
true
1e3
a/b/../c.txt
1.2.3
v2.0.0-rc.1
Z
ÀÉÎ ǆ
%d%%
$1 ${x}
....
A1B2c3
\x00\x7f
🙂 ok
a,b,,c
snake_case_word
/abs/path/
"""
)
NUMBERS = words(
    r"""
0
1
2
-1
3
7
10
1.5
-2.25
0x1F
010
1e3
'a'
1_000
2.0
0b11
1i
1e-7
100000
9223372036854775807
123456789.5
"""
)
SMALL = words(
    r"""
0
1
2
3
5
-1
4
8
20
2.0
"""
)
ZONES = words(
    r"""
"UTC"
"America/New_York"
"Nowhere"
"Asia/Kolkata"
"""
)
TIMES = words(
    r"""
(toDate "2006-01-02" "2024-02-29")
(toDate "2006-01-02T15:04:05Z07:00" "2023-07-01T12:30:45+02:00")
(toDate "Jan 2, 2006 at 3:04pm (MST)" "Feb 3, 2013 at 7:54pm (PST)")
"""
)
METHODS = words(
    r"""
Year
Month
Weekday
Unix
YearDay
UTC
Format "Jan 2"
Nope
Hour
IsZero
Format 5
Format
"""
)
REPLACEMENTS = words(
    r"""
"$1"
"[$0]"
"${1}x"
"$n"
"$$"
"-"
"""
)
INDEXES = words(
    r"""
0
1
-1
3
9
"a"
"k"
"zz"
1.0
.i
nil
0 0
"c" "d"
2
.i64
"""
)
REGEX = words(
    r"""
a+
[a-z]+
(\\w)(\\d)?
^.
x*
(?i)h
\\b
[
(?P<n>o)
''
b|o*
\\s+
(a
"""
)
VERSION = words(
    r"""
1.2.3
1.2
v1
2.0.0-beta.1+x
1.2.3.4
01.2.3
x
''
0.0.3
1.2.3-01
"""
)
CONSTRAINT = words(
    r"""
>=1.2
^1.2.3
~1.2
1.x
!=1.2.3
1.0 - 2.0
>1 <3 || 5
*
bad
=1.2.3-beta
^0.0.3
"""
)
LAYOUT = words(
    r"""
2006-01-02
Jan _2 15:04:05.000
Mon, 02 Jan 2006 03:04PM -0700 MST
06.1.2
2006-01-02T15:04:05Z07:00
x
002
"""
)
JSON = words(
    r"""
{\"a\":1}
[1,2.5,null]
\"s\"
{
tru
1 2
''
{\"a\":[{\"b\":\"<x>\"}]}
1e400
[\"\\u00e9\"]
-
"""
)
BASE64 = words(
    r"""
YWJj
YQ==
YQ=
Y
####
YWJj\nZGVm
''
/+8=
"""
)
BASE32 = words(
    r"""
MFRGG===
ME======
M
mfrgg
''
MFRGGZDF
"""
)
DURATION = words(
    r"""
1h30m
2s
-5m
1.5h
x
''
300ms
1d
"""
)
FORMAT = words(
    r"""
%d
%s
%v|%v
%5.2f
%-8q|
%x
%+v
%#v
%T
%08b
%t
%c
%U
%e
%[2]v %[1]v
%*d
%!
%6.3v
% d
%X
%o
%g
%G
%q
%z
%
%%
%.2s
%+d
%#x
%x %X
%#q
%+q
%O
% x
%#U
%-5d|%5d
%05d
%.3
%[3]d
%[1]
%.*f
%6s|
%#g
%F
"""
)
URL = words(
    r"""
http://u:p@h.example:80/a%20b?q=1#f
mailto:a@b
/rel/path
//h/p
http://[::1]:8/
:bad
%zz
a b
''
http://h:x/
http://a:b:1/
"""
)
TEXTS = ["", " ", "\n", "text ", "a: ", "\n  - ", "{ }", "é", "}} ", "'", "x\n\ty "]
SPECIAL = {
    "regex": REGEX,
    "version": VERSION,
    "constraint": CONSTRAINT,
    "layout": LAYOUT,
    "json": JSON,
    "base64": BASE64,
    "base32": BASE32,
    "duration": DURATION,
    "format": FORMAT,
    "url": URL,
}
FIELDS = words(
    r"""
.s
.i
.f
.b
.n
.m
.l
.ms
.ls
.li
.none
.m.a
.m.c.d
.none.x
.el
.i64
.u
.em
.m.é
.n.x
.s.x
.ms.zz
.mi
.nl
.nm
.
.m.b
.l.x
.Name
.M.a
"""
)
RANGED = words(
    r"""
.l
.m
.ls
.li
3
.el
.n
(list 1 .s nil)
(list .i64)
.ms
.s
.f
2
.mi
(until 3)
"""
)
COUNTS = ["0", "1", "3", "-1"]
POOLS: dict[str, list[str]] = {
    "count": COUNTS,
    "until": ["0", "3", "-2", "2.0", ".i64", "1.5"],
    "start": ["0", "5", "-3"],
    "stop": ["0", "6", "-4"],
    "step": ["1", "2", "-1", "0"],
    "number": ["1", "3", "-2", "0", "5"],
    "size": ["1", "2", "5"],
    "sliceable": [".l", "(list 1 2 3)", ".ls", ".li", ".s", ".n"],
    "bounds": ["0", "1", "", "0 1", "1 1", "0 2"],
    "epoch": [".i", ".i64", "1700000000"],
    "limit": ["-1", "0", "1", "2"],
    "indexed": [".l", ".m", ".s", ".ms", ".ls", ".li", ".mi", ".n", ".none", ".i", ".el", "(list 1 2)"],
    "versionpart": ["Major", "Minor", "Prerelease", "Original", "Metadata", "Nope"],
    "zone": ZONES,
    "time": TIMES,
    "method": METHODS,
    "replacement": REPLACEMENTS,
    "index": INDEXES,
}
SHAPES = words(
    r"""
and <any>
and <any> <any>
or <any> <any>
or <any> <any> <any>
and <any> <any> <any>
keys (dict <string> <any>)
keys .em .nm (dict <string> 1) | sortAlpha
values (dict "a" <any>)
values (pick .m "c")
repeat <count> <string>
until <until>
untilStep <start> <stop> <step>
seq
seq <number>
seq <number> <number>
seq <number> <number> <number>
seq <number> <number> <number> <number>
indent <count> <string>
nindent <count> <string>
slice <sliceable> <bounds>
chunk <size> <list>
date_in_zone <:layout> <time> <zone>
htmlDateInZone <epoch> <zone>
durationRound <:duration>
(urlParse <:url>)
urlParse <:url> | urlJoin
(semver <:version>).<versionpart>
<time>.<method>
regexReplaceAll <:regex> <string> <replacement>
regexFindAll <:regex> <string> <limit>
regexSplit <:regex> <string> <limit>
mustRegexSplit <:regex> <string> <limit>
printf <:format>
printf <:format> <any>
printf <:format> <any> <any>
printf <:format> <any> <any> <any>
index <indexed> <index>
"""
)
DAMAGE = list("{}()|.$\"'`:=,-/*\\ \n#@é1x")
INSERTS = ["{{", "}}", "{{end}}", "{{else}}", " -}}", "{{- ", "/*", "nil", "0x", "$"]
LETTERS = [*"abcXYZ 019_-./:,=%$&<", "é", "日", "😀", "ß", "\\n", "\\t", '\\"', "\\\\", "\\u2028", "ǆ", "Σ", "İ"]
PLAIN_SHAPES = words(
    r"""
and <any> <any>
or <any> <any>
printf <:format>
printf <:format> <any>
printf <:format> <any> <any>
index <indexed> <index>
slice <sliceable> <bounds>
eq <any> <any>
eq .i 1 2 5
lt <any> <any>
print <any> <any> <any>
println <any> <any>
len <sliceable>
html <any> <any>
"""
)
