"""The language itself: text, literals, fields, variables, control structures, definitions, builtins, errors."""

PLAIN = r"""
no actions at all
''

{{""}}
a{{1}}b
{{- 1}} x
 x {{- 1 -}} y⏎
 x {{1 -}} ⏎⏎ y
 x ⏎ {{- 1}} y
{{-1}}
{{- -1 -}}
a{{/* c */}}b
a {{- /* c */ -}} b
{{/* a⏎b */}}x
{{/* {{ nested }} */}}x
{{ /* c */ }}
{{/* c */ }}
{{/* c
{{/* c }}
{{true}} {{false}}
{{1}} {{-7}} {{+3}} {{1_000}}
{{0x1F}} {{0X_ff}} {{0o17}} {{0b1010}} {{017}}
{{1.5}} {{1.}} {{.5}} {{1e3}} {{1E-7}} {{1e21}} {{0x1p4}} {{0x.8p1}}
{{'a'}} {{'\n'}} {{'\x41'}} {{'\u00e9'}} {{'日'}} {{'\''}} {{'\\'}}
{{''}}
{{'ab'}}
{{'a}}
{{1i}} {{2.5i}} {{1+2i}} {{0i}} {{-1-1i}}
{{9223372036854775807}} {{-9223372036854775808}}
{{9223372036854775808}}
{{18446744073709551615}}
{{99999999999999999999}}
{{0x}}
{{1e}}
{{089}}
{{1x}}
{{3.4.5}}
{{1_}}
{{"quoted \"x\" \t \u00e9 \x41 \101 \\"}}
{{`raw \n "x"`}}
{{`two⏎lines`}}
{{"unterminated}}
{{"new⏎line"}}
{{"bad \q escape"}}
{{`open
{{"}}"}}{{"{{"}}
{{.}}
{{.s}} {{.i}} {{.f}} {{.whole}} {{.yes}} {{.no}}
{{.big}} {{.tiny}} {{.i64}} {{.byte}}
{{.null}} {{.absent}} {{.absent.deeper}}
{{.map.one}} {{.map.sub.deep}} {{.map.absent}}
{{.map.nil.x}}
{{.s.x}}
{{.i.x}}
{{.list.x}}
{{.labels.env}} {{.labels.none}}
{{.labels.env.x}}
{{.list}} {{.strings}} {{.ints}} {{.none}} {{.nested}}
{{.map}}
{{.labels}} {{.numbered}}
{{.nilmap}} {{.nillist}}
{{.uni}} {{.html}}
{{$}}
{{$.s}}
{{$x := 1}}{{$x}}
{{$x := .map}}{{$x.sub.deep}}
{{$x := 1}}{{$x = 2}}{{$x}}
{{$x := 1}}{{if true}}{{$x = 2}}{{end}}{{$x}}
{{$x := 1}}{{if true}}{{$x := 2}}{{$x}}{{end}}{{$x}}
{{$x := 1}}{{$x := $x}}{{$x}}
{{$x = 1}}
{{$x}}
{{$x := nil}}
{{$x, $y := .list}}
{{$x := .absent}}{{$x}}{{$x.y}}
{{$x := .null}}{{$x}}{{$x.y}}
{{$x := .s}}{{$x.y}}
{{$_x1 := 5}}{{$_x1}}
{{$é := 5}}{{$é}}
{{$x := 1 | printf "%d"}}{{$x}}
{{if .yes}}T{{end}}
{{if .no}}T{{else}}F{{end}}
{{if .empty}}T{{else}}F{{end}}{{if .s}}T{{else}}F{{end}}
{{if 0}}T{{else}}F{{end}}{{if 0.0}}T{{else}}F{{end}}{{if 0i}}T{{else}}F{{end}}{{if 1}}T{{end}}
{{if .none}}T{{else}}F{{end}}{{if .list}}T{{end}}{{if .map}}T{{end}}{{if .nilmap}}T{{else}}F{{end}}
{{if .null}}T{{else}}F{{end}}{{if .absent}}T{{else}}F{{end}}
{{if "false"}}T{{end}}
{{if .no}}1{{else if .yes}}2{{else}}3{{end}}
{{if .no}}1{{else if .no}}2{{else}}3{{end}}
{{if $x := .s}}{{$x}}{{end}}
{{if $x := .empty}}{{$x}}{{else}}[{{$x}}]{{end}}
{{if $x := 0}}{{else if $y := 5}}{{$x}}{{$y}}{{end}}
{{if not .no}}T{{end}}{{if and .yes .s}}T{{end}}{{if or .no .s}}T{{end}}
{{if}}x{{end}}
{{if .yes}}x
{{if .yes}}x{{else}}y{{else}}z{{end}}
{{if .yes}}x{{else with}}y{{end}}
{{if nil}}x{{end}}
{{with .map}}{{.one}}{{end}}
{{with .map.sub}}{{.deep}}{{$.s}}{{end}}
{{with .absent}}x{{else}}{{.s}}{{end}}
{{with .absent}}x{{else with .map}}{{.one}}{{else}}z{{end}}
{{with $x := .s}}{{$x}}{{.}}{{end}}
{{with 1}}{{.}}{{end}}{{with ""}}x{{else}}e{{end}}
{{with .s}}{{.x}}{{end}}
{{range .list}}[{{.}}]{{end}}
{{range .strings}}{{.}},{{end}}
{{range .ints}}{{.}},{{end}}
{{range .none}}x{{else}}empty{{end}}
{{range .null}}x{{else}}empty{{end}}{{range .absent}}x{{else}}empty{{end}}
{{range .map}}<{{.}}>{{end}}
{{range $k, $v := .map}}{{$k}}={{$v}};{{end}}
{{range $k, $v := .numbered}}{{$k}}={{$v}};{{end}}
{{range $k, $v := .labels}}{{$k}}={{$v}};{{end}}
{{range $i, $e := .list}}{{$i}}:{{$e}} {{end}}
{{range $e := .list}}{{$e}} {{end}}
{{range $i, $e := .strings}}{{$i}}{{$e}}{{end}}
{{range 3}}{{.}}{{end}}{{range 0}}x{{else}}none{{end}}
{{range $i := 3}}{{$i}}{{end}}
{{range $i, $e := 3}}{{$i}}{{end}}
{{range .byte}}{{break}}{{end}}{{range -2}}x{{else}}neg{{end}}
{{range .s}}{{.}}{{end}}
{{range .f}}{{.}}{{end}}
{{range .yes}}{{.}}{{end}}
{{range .list}}{{.x}}{{end}}
{{range .strings}}{{.x}}{{end}}
{{range $e := .list}}{{$e.x}}{{end}}
{{range .matrix}}{{.n}}{{.n.x}}{{end}}
{{range .nested}}({{range .}}{{.}}{{end}}){{end}}
{{range $i, $x := .nested}}{{range $j, $y := $x}}{{$i}}{{$j}}{{$y}} {{end}}{{end}}
{{range .ints}}{{if eq . 4}}{{continue}}{{end}}{{.}}{{end}}
{{range .ints}}{{if eq . 4}}{{break}}{{end}}{{.}}{{end}}
{{range .ints}}{{range .}}{{if eq . 2}}{{break}}{{end}}{{.}}{{end}};{{end}}
{{range .ints}}{{with .}}{{if eq . 4}}{{continue}}{{end}}{{.}}{{end}}{{else}}x{{end}}
{{break}}
{{continue}}
{{range .list}}{{break 1}}{{end}}
{{range .list}}{{else}}{{break}}{{end}}
{{range .list}}{{end}}{{continue}}
{{$i := 0}}{{$e := 0}}{{range $i, $e = .strings}}{{end}}{{$i}}{{$e}}
{{$e := 0}}{{range $e = .strings}}{{$e}}{{end}}{{$e}}
{{range $i, $e = .strings}}{{end}}
{{range $i, := .list}}{{end}}
{{range $i, 5}}{{end}}
{{range $x := (1) 2}}{{end}}
{{range $i, $x := .list 2}}{{end}}
{{range $x := .i | .s}}{{end}}
{{range $i, $j, $k := .list}}{{end}}
{{range $x := .none}}{{else}}{{$x}}{{end}}
{{range $i, $x := .absent}}{{else}}[{{$i}}{{$x}}]{{end}}
{{$n := 0}}{{range .ints}}{{$n = .}}{{end}}{{$n}}
{{range .list}}{{$v := .}}{{end}}{{$v}}
{{define "T"}}[{{.}}]{{end}}{{template "T" .s}}{{template "T"}}{{template "T" nil}}
{{define "T"}}{{$}}{{.}}{{end}}{{template "T" 1}}
{{$x := 1}}{{define "T"}}{{$x}}{{end}}{{template "T"}}
{{template "missing"}}
{{template "missing" .s}}
{{define "T"}}a{{end}}{{define "T"}}b{{end}}{{template "T"}}
{{define "T"}}a{{end}}{{define "T"}} {{end}}{{template "T"}}
{{define "T"}}  {{end}}{{define "T"}}b{{end}}{{template "T"}}
{{define `R`}}raw{{end}}{{template `R`}}
{{define T}}{{end}}
{{define "T"}}
{{define "T"}}{{else}}{{end}}
{{define "T" .}}{{end}}
{{template}}
{{template T}}
{{template "T" . "x"}}
{{block "B" .map}}{{.one}}{{end}}
{{block "B" .s}}default{{.}}{{end}}{{define "B"}}other{{.}}{{end}}
{{define "B"}}first{{end}}{{block "B" .}}second{{end}}
{{block "B"}}x{{end}}
{{block "B" .}}x{{else}}y{{end}}
{{define "A"}}{{template "B" .}}{{end}}{{define "B"}}<{{.}}>{{end}}{{template "A" .s}}
{{define "E"}}{{.x.y.z}}{{.s.x}}{{end}}{{template "E" .}}
{{if .yes}}{{define "In"}}x{{end}}{{end}}
{{.s | printf "%s!"}}
{{"a" | printf "%s-%s" "b" | printf "[%s]"}}
{{1 | 2}}
{{.s | .t}}
{{.s | true}}
{{.s | nil}}
{{.s | "x"}}
{{.s | $.t}}
{{.s |}}
{{| .s}}
{{()}}
{{(1)}} {{(.s)}} {{((1))}}
{{(.map).one}} {{(index .list 1)}} {{(.map.sub).deep}}
{{(.s).x}}
{{(1).x}}
{{1.x}}
{{"a".x}}
{{nil.x}}
{{true.x}}
{{.map.one.two}}
{{(printf "%s" .s) | len}}
{{len (printf "%d" 1234)}}
{{(1}}
{{1)}}
{{((1)}}
{{.s 1}}
{{.map.one 1}}
{{.list 1}}
{{$x := 1}}{{$x 2}}
{{1 2}}
{{"a" "b"}}
{{true false}}
{{(1) 2}}
{{nil}}
{{nil 1}}
{{print nil}}
{{nope}}
{{nope 1}}
{{print}}{{print 1}}{{print 1 2}}{{print "a" "b"}}{{print 1 "a" 2}}{{print 1 2 "a" "b" 3 4}}
{{println}}{{println 1 "a"}}{{print .null .absent}}
{{printf}}
{{printf 1}}
{{printf .absent}}
{{printf "%d %s %v %q %x" 1 "a" 2.5 "q" 255}}
{{printf "%5d|%-5d|%05d|%+d|% d" 42 42 42 42 42}}
{{printf "%x %X %#x %o %O %b %c %U %#U" 200 200 200 8 8 5 65 233 233}}
{{printf "%f %.2f %8.3f %-8.1f| %e %E %g %G" 3.14159 3.14159 3.14159 3.14159 1234.5 1234.5 1e21 1e-7}}
{{printf "%s|%10s|%-10s|%.2s|%q|%#q|%+q" .uni .uni .uni .uni .uni .uni .uni}}
{{printf "%v %+v %#v %T" .map .map .map .map}}
{{printf "%v %+v %#v %T" .list .list .list .list}}
{{printf "%#v %#v %#v" .strings .labels .nilmap}}
{{printf "%T %T %T %T %T %T %T" 1 1.5 "a" true .i64 .byte nil}}
{{printf "%t %v %d" true false true}}
{{printf "%d %s %f" "a" 1 "b"}}
{{printf "%d %d" 1}}
{{printf "%d" 1 2}}
{{printf "%!" 1}}
{{printf "%"}}
{{printf "%z" 1}}
{{printf "%%"}}
{{printf "%[2]d %[1]d" 1 2}}
{{printf "%[3]d" 1 2}}
{{printf "%[x]d" 1}}
{{printf "%*d|%-*d|" 5 42 5 42}}
{{printf "%.*f" 2 3.14159}}
{{printf "%x %X % x %#x" "hello" "hello" "hello" "hello"}}
{{printf "%s %d" .list .ints}}
{{printf "%6.2f|%-8s|%08.3f" 3.14159 "ab" -3.14159}}
{{printf "%v %v %v" 1e6 100000.0 123456.7}}
{{printf "%d" .f}}{{printf "%s" .map}}
{{printf "%v" 1i}} {{printf "%.1f" 1.25i}}
{{printf "%c%c" 72 0x1F600}}
{{printf "%q %q" 65 0x1F600}}
{{printf "%s" nil}} {{printf "%d" nil}}
{{printf "%08b" 5}} {{printf "%-8q|" "a"}} {{printf "%+.3e" 12345.678}}
{{printf "%6d|%06d|%x" -42 -42 -42}}
{{printf "%v" .nested}}
{{printf "%p" 1}}
{{printf "%x" .list}}
{{html .html}} {{html 1 "a"}} {{html .absent}} {{html}}
{{js .html}} {{js "it's⏎ \"x\" \u2028 é = &"}}
{{urlquery "a b/c?d=é&+"}} {{urlquery 1 2}}
{{.html | html | len}}
{{and}}
{{or}}
{{and 1}} {{and 1 0}} {{and 0 1}} {{and 1 2 3}} {{and "" 1}}
{{or 0}} {{or 0 1}} {{or 2 3}} {{or "" 0 .s}}
{{and .yes .absent.x}} {{or .s (index .none 5)}}
{{or .no (index .none 5)}}
{{and nil 1}} {{or nil 1}}
{{1 | and 0}} {{1 | and 2}} {{1 | or 0}} {{0 | or ""}}
{{not 0}} {{not 1}} {{not .absent}} {{not .list}} {{not nil}}
{{not}}
{{not 1 2}}
{{eq 1 1}} {{eq 1 2}} {{eq 1 2 3 1}} {{eq "a" "a"}} {{eq true true}} {{eq 1.5 1.5}}
{{eq .i64 1099511627776}} {{eq .byte 200}} {{eq .byte -56}} {{eq 200 .byte}}
{{eq 1 1.0}}
{{eq "1" 1}}
{{eq true 1}}
{{eq 1}}
{{eq}}
{{eq .list .list}}
{{eq .map .map}}
{{eq .list .map}}
{{eq .list 1}}
{{eq .null .absent}} {{eq .null nil}} {{eq .absent 1}} {{eq 1 .absent}} {{eq .nilmap nil}} {{eq .nillist .nillist}}
{{eq nil nil}} {{ne nil 1}}
{{eq 1i 1i}}
{{ne 1 2}} {{ne "a" "a"}} {{ne 1 1 1}}
{{lt 1 2}} {{lt 2 1}} {{lt "a" "b"}} {{lt 1.5 2.5}} {{lt -1 .byte}} {{lt .byte 300}}
{{le 1 1}} {{gt 2 1}} {{ge 1 1}} {{ge "b" "a"}} {{gt 1.5 1.5}}
{{lt true false}}
{{lt 1 "a"}}
{{lt nil 1}}
{{lt .list .list}}
{{gt 1 1.0}}
{{lt 1i 2i}}
{{index .list 0}} {{index .list 1}} {{index .nested 0 1}} {{index .map "one"}} {{index .map "sub" "deep"}}
{{index .list 4}}
{{index .list 5}}
{{index .list -1}}
{{index .list "a"}}
{{index .list 1.0}}
{{index .list nil}}
{{index .map 1}}
{{index .map nil}}
{{index .map "absent"}} {{index .labels "absent"}} {{index .numbered 10}} {{index .numbered 11}}
{{index .s 0}} {{index .uni 1}}
{{index .s 3}}
{{index .s 9}}
{{index .i 0}}
{{index .null 0}}
{{index .absent 0}}
{{index nil 0}}
{{index .list}} {{index .list 2}}
{{index .map "nil" "x"}}
{{index .list .byte}}
{{index .ints .i64}}
{{index}}
{{slice .s 1}} {{slice .s 1 2}} {{slice .s}} {{slice .uni 0 3}}
{{slice .list 1 3}} {{slice .strings 0 1}} {{slice .list 0 2 2}}
{{slice .s 2 1}}
{{slice .s 0 9}}
{{slice .s 0 1 2}}
{{slice .list 0 1 2 3}}
{{slice .i 0}}
{{slice .map 0}}
{{slice nil 0}}
{{slice .list "a"}}
{{len .s}} {{len .uni}} {{len .list}} {{len .map}} {{len .none}} {{len .nilmap}}
{{len 1}}
{{len .absent}}
{{len .null}}
{{len nil}}
{{len}}
{{len .s .s}}
{{call .s}}
{{call .absent}}
{{call nil}}
{{call}}
{{.a-b}}
{{.a+b}}
{{.a b}}
{{$x-1}}
{{a.b}}
{{.}}{{. }}{{ .}}
{{.s.}}
{{..}}
{{.1}}
{{$.}}
{{$$}}
{{.s,}}
{{,}}
{{:}}
{{:=}}
{{= 1}}
{{.s = 1}}
{{1 := 2}}
{{#}}
{{ é }}
{{ 日.本 }}
{{ ☺ }}
{{.日本}}
{{ "a" + "b" }}
{{.s == 1}}
{{!true}}
{{
{{.s
{{.s}
{{.s }
{{end}}
{{else}}
x{{end}}y
{{if 1}}{{end}}{{end}}
{{else if 1}}{{end}}
{{if 1}}{{else if}}{{end}}
{{range}}{{end}}
{{with}}{{end}}
{{end 1}}
{{if 1}}{{else 1}}{{end}}
{{if 1}}{{end
⏎⏎{{.s.x}}
⏎ é {{.s.x}}
⏎{{"a⏎b"}}
{{/* c⏎c */}}⏎{{nope}}
{{"⏎
{{.s⏎.t}}
{{⏎.s⏎}}
{{printf⏎"%s"⏎.s}}
{{(.s⏎}}
{{range .list}}⏎{{.x.y}}{{end}}
{{with .map}}{{with .sub}}{{.deep.x}}{{end}}{{end}}
{{printf "%d" (index .list 9)}}
{{printf "%s" (printf)}}
{{len (index .map "one")}}
{{.s | len | printf "%s"}}
{{printf .i}}
{{.i | printf}}
{{printf (print "%d") 5}}
{{html (js "<'>")}}
{{block "x" .}}{{break}}{{end}}
{{range .list}}{{block "x" .}}{{break}}{{end}}{{end}}
{{define "a b/c.d"}}ok{{end}}{{template "a b/c.d"}}
{{ $ := 1 }}{{ $ }}
{{ $x := 1 }}{{ $y := $x }}{{ $x = 3 }}{{ $y }}{{ $x }}
{{ with $x := .map }}{{ $x.one }}{{ end }}{{ $x }}
{{ range $i, $e := .ints }}{{ if $i }},{{ end }}{{ $e }}{{ end }}
{{ if true }}{{ $x := 1 }}{{ else }}{{ $x }}{{ end }}
{{ (and true ($x := 1)) }}{{ $x }}
{{ and false ($x := 1) }}{{ $x }}
{{ or true ($x := 1) }}{{ $x }}
{{ print ($x := 5) $x }}
{{ .map.sub.deep | len }} {{ (len .map.sub.deep) }}
{{ break := 1 }}
{{ if (eq 1 1) }}y{{ end }}
"""

OTHER_DATA = """
{{.}}
{{.x}}
{{with .}}{{.}}{{else}}nothing{{end}}
{{range .}}<{{.}}>{{else}}none{{end}}
{{printf "%v|%T" . .}}
"""

MISSING = """
{{.absent}}
{{.absent.x}}
{{.map.absent}}
{{.labels.absent}}
{{.s}} {{.map.one}}
{{with .absent}}x{{else}}y{{end}}
{{index .map "absent"}}
{{.map.nil}}
"""

HUB = """
a {{hub 1 hub}} {{ 2 }} {{hub- 3 -hub}} b
{{hub .ManagedClusterName hub}}
{{hub .ManagedClusterLabels.env hub}}{{hub .ManagedClusterLabels.none hub}}
{{hub .Other hub}}
{{hub .ManagedClusterName.x hub}}
{{hub .ManagedClusterName 1 hub}}
{{hub index .ManagedClusterLabels "none" hub}}
{{hub hasKey .ManagedClusterLabels "env" hub}}
{{hub $x := 3 hub}}{{hub $xhub}}
{{hub 1hub}}
{{hub "x"hub}}{{hub (1)hub}}
{{hub- /* c */ -hub}} y
{{hub . hub}}
{{hub printf "%+v %#v %T" . . . hub}}
{{hub toJson . hub}}
{{hub "s" | upper hub}}{{ "t" | lower }}
{{hub if eq .ManagedClusterLabels.env "prod" hub}}P{{hub else hub}}N{{hub end hub}}
{{hub range $k, $v := .ManagedClusterLabels hub}}{{hub $k hub}}={{hub $v hub}}{{hub end hub}}
{{hub nope hub}}
{{hub
"""

ANGLES = """
<<.s>>
<<- .s ->>
<</* c */>>x
{{.s}} <<1>>
<<.s
<<"<<">> <<">>">>
<<if .yes>>T<<else>>F<<end>>
"""

WITH_SPRIG = """
{{upper 5}}
{{upper .f}}
{{.absent | upper}}
{{.null | upper}}
{{upper nil}}
{{upper .absent}}
{{upper .null}}
{{until 2.0}}
{{until 2.5}}
{{until "2"}}
{{until .whole}}
{{until .i64}}
{{until .byte}}
{{ternary 1 2 "true"}}
{{ternary 1 2 .s}}
{{round 1.25 1 "x"}}
{{round 3.14159 2}} {{round 2.5 0}} {{round -2.5 0}} {{round 123.456 -1}}
{{hasKey .absent "a"}} {{hasKey nil "a"}} {{hasKey .nilmap "a"}}
{{hasKey .list "a"}}
{{hasKey "x" "a"}}
{{hasKey 1 "a"}}
{{genSelfSignedCert "x" 1 nil 1}}
{{(upper "a").x}}
{{upper "a" "b"}}
{{upper}}
{{"a" | upper "b"}}
{{add}}{{add 1}}{{1 | add 2}}
{{list | len}} {{(list 1 2).x}}
{{upper (or 1 2)}}
{{upper (or 0 2)}}
{{upper (and .yes .i .f)}}
{{.i | trunc 3}}
{{1.5 | trunc 3 | upper}}
{{trunc (len .s) "abcdef"}}
{{(toDate "2006-01-02" .date).Year}} {{(toDate "2006-01-02" .date).Month}} {{(toDate "2006-01-02" .date).Weekday}}
{{(toDate "2006-01-02" .date).Format "Jan 2"}}
{{(toDate "2006-01-02" .date).Format 5}}
{{(toDate "2006-01-02" .date).Format}}
{{(toDate "2006-01-02" .date).Nope}}
{{(toDate "2006-01-02" .date).AddDate 0 1 1}}
{{(semver "v1.2.3-rc.1+b5").Major}} {{(semver "v1.2.3-rc.1+b5").Prerelease}} {{(semver "v1.2.3-rc.1+b5").Original}}
{{(semver "1.2.3").IncMinor}} {{(semver "1.2.3").Compare (semver "1.2.4")}}
{{(semver "1.2.3").Compare "x"}}
{{(semver "1.2.3").Major.x}}
{{printf "%d|%x|%5d" (semver "1.2.3-a") (semver "1.2.3") (semver "1.2.3")}}
{{printf "%#v %#v" (semver "1.2.3") (semver "1.2.3").IncMinor}} {{printf "%d" (semver "1.2.3").IncMinor}}
{{printf "%#v" (toDate "2006-01-02" .date)}}
{{printf "%#v" (list (toDate "2006-01-02T15:04:05-07:00" "2024-02-29T01:02:03+02:00"))}}
{{len (semver "1.2.3")}}
{{index (semver "1.2.3") 0}}
{{range (semver "1.2.3")}}{{end}}
{{printf "%v %+v %s %q" (semver "1.2.3") (semver "1.2.3") (semver "1.2.3") (semver "1.2.3")}}
{{typeOf (semver "1.2.3").IncMinor}} {{kindOf (semver "1.2.3").IncMajor}} {{(semver "v1.2.3").IncPatch.Original}}
{{(semver "1.2.3").Compare (semver "1.2.3").IncPatch}}
{{$d := dict "a" 1}}{{$_ := set $d "b" 2}}{{$d}}
{{$l := list 1 2}}{{append $l 3}}{{$l}}
{{fail "stop here"}}
{{"stop" | fail}}
{{slice .s 1}}
{{env "HOME"}}
{{expandenv "$HOME"}}
{{.s | default "x" | quote | printf "[%s]"}}
{{range until 3}}{{.}}{{end}}
{{range $i, $s := splitList "," "a,b"}}{{$i}}{{$s}}{{end}}
{{index (dict "a" (list 1 2)) "a" 1}}
"""
