"""Each sprig function at least once, with its edges; functions that differ from run to run are tested elsewhere."""

SPRIG = r"""
{{hello}}
{{upper .uni}} {{lower .t}} {{upper "straße ŉ ǆ"}} {{lower "İΑΣ"}}
{{title "hello wörld x_y z-w"}} {{untitle "Hello World"}} {{swapcase "Hello World 1a"}}
{{trim "  a b⏎	 "}}
{{trimAll "$-" "$-5.00-$"}}
{{trimall "x" "xax"}}
{{trimPrefix "a" "abc"}}
{{trimSuffix "c" "abc"}}
{{nospace "h e l l o"}} {{nospace "é x"}} {{initials "First Try étude"}}
{{substr 0 5 "hello world"}}
{{substr -1 3 "hello"}}
{{substr 2 -1 "hello"}}
{{substr 1 99 "hello"}}
{{substr 0 2 "é"}}
{{substr 9 -1 "hello"}}
{{substr 3 2 "hello"}}
{{substr -1 -1 "hello"}}
{{substr -1 9 "hello"}}
{{trunc 3 "hello"}} {{trunc -3 "hello"}} {{trunc 9 "hello"}} {{trunc 0 "x"}}|{{trunc 1 "é" | len}}
{{abbrev 5 "hello world"}}
{{abbrev 3 "hello"}}
{{abbrev 99 "hello"}}
{{abbrevboth 5 10 "1234 5678 9123"}}
{{abbrevboth 0 4 "hello"}}
{{abbrevboth 6 7 "abcdefghijkl"}} {{abbrevboth 9 7 "abcdefghijkl"}} {{abbrevboth 1 5 "abcdefgh"}}
{{repeat 3 "ab"}} {{repeat 0 "x"}}|
{{repeat -1 "x"}}
{{contains "ell" "hello"}} {{hasPrefix "he" "hello"}} {{hasSuffix "lo" "hello"}} {{contains "" "x"}}
{{quote "a" 1 nil "b\"c" .uni}} {{squote "a" 1 nil "it's"}} {{quote}}| {{quote .list}}
{{cat "a" 1 nil "b"}} {{cat}}| {{cat .list .map}}
{{indent 2 "a⏎b"}} {{nindent 2 "a⏎b"}}
{{indent -1 "a"}}
{{replace "l" "L" "hello"}} {{replace "" "-" "ab"}} {{replace "x" "" "axb"}}
{{plural "one" "many" 1}} {{plural "one" "many" 2}} {{len .list | plural "one" "many"}}
{{snakecase "FirstName HTTPServer NoHTTPS GO_PATH http2xx Bld4Floor3rd"}}
{{kebabcase "FirstName HTTP20xOK Duration2m3s a.b-c"}} {{camelcase "http_server go-path _x__y some words GOLANG_IS"}}
{{camelcase "_"}} {{camelcase ""}}| {{camelcase "a"}} {{snakecase ""}}| {{snakecase "ÀÉ日本X"}}
{{wrap 5 "Hello World longwordhere x"}} {{wrapWith 4 "|" "Hello World"}} {{wrap 0 "a b"}}
{{split "," "a,b,c"}}
{{(split "$" "x$y")._1}}
{{splitn "," 2 "a,b,c"}}
{{splitList "" "héy"}}
{{splitList "," ""}}
{{splitn "," 0 "a,b"}}
{{join "-" .list}} {{join "," .strings}} {{join "," 5}} {{join "," nil}}| {{join "-" .ints}}
{{toStrings .list}}
{{toStrings "x"}}
{{toStrings nil}}
{{sortAlpha .strings}}
{{sortAlpha (list 3 "b" 1)}}
{{sortAlpha 5}}
{{sortAlpha .strings}} {{.strings}} {{$l := splitList "," "c,b,a"}}{{$s := toStrings $l | sortAlpha}}{{$l}}
{{sortAlpha .list}} {{.list}}
{{toString .list}} {{toString 1.5}} {{toString nil}} {{toString true}}
{{atoi "42"}} {{atoi "x"}} {{atoi "99999999999999999999"}} {{atoi "0x1F"}} {{atoi "-7"}}
{{int "42"}}
{{int "3.7"}}
{{int 3.9}}
{{int true}}
{{int nil}}
{{int "010"}}
{{int "x"}}
{{int "1e3"}}
{{int -2.7}}
{{int "-3.9"}}
{{int64 "42"}}
{{int64 1e300}}
{{float64 "1.5"}}
{{float64 "x"}}
{{float64 3}}
{{float64 "1e400"}}
{{float64 "0x1p4"}}
{{float64 true}}
{{toDecimal "755"}} {{toDecimal 777}} {{toDecimal "x"}} {{toDecimal "9"}}
{{add 1 2 "3" 4.9}}
{{add1 5}}
{{sub 5 7}}
{{mul 2 3 4}}
{{div 7 2}}
{{div -7 2}}
{{mod 7 3}}
{{mod -7 3}}
{{add "a" 1}}
{{div 1 0}}
{{mod 1 0}}
{{add 9223372036854775807 1}}
{{mul 4611686018427387904 2}}
{{sub -9223372036854775808 1}}
{{div -9223372036854775808 -1}}
{{max 1 5 3}} {{min 4 2 8}} {{biggest 1 2}} {{max "7" 2.9}} {{maxf 1.5 2.5}} {{minf 1.5 "0.5"}}
{{floor 1.9}}
{{floor -1.1}}
{{ceil 1.1}}
{{ceil -0.5}}
{{floor "2.7"}}
{{round 1.555 2}}
{{round 2.5 0 0.6}}
{{round "3.7" 0}}
{{addf 0.1 0.2}}
{{add1f 1.5}}
{{subf 1.1 0.1 0.5}}
{{mulf 1.1 3}}
{{divf 1 3}}
{{divf 10 4 2}}
{{divf 2 3}}
{{divf -1 3}}
{{addf}}
{{divf 1 0}}
{{until 5}}
{{until -3}}
{{until 0}}
{{untilStep 0 10 3}}
{{untilStep 5 0 -2}}
{{untilStep 0 5 -1}}
{{untilStep 0 5 0}}
{{seq 5}} {{seq -3}} {{seq 2 5}} {{seq 5 2}} {{seq 0 2 10}} {{seq 10 -3 0}} {{seq 5 1 0}}| {{seq}}| {{seq 1 2 3 4}}|
{{default "d" ""}}
{{default "d" "v"}}
{{default "d" 0}}
{{default "d" nil}}
{{default "d" .none}}
{{default "d"}}
{{.absent | default 5}}
{{empty 0}} {{empty ""}} {{empty nil}} {{empty .list}} {{empty .none}} {{empty false}} {{empty .map}} {{empty "x"}}
{{coalesce 0 "" nil "x" "y"}} {{coalesce}}| {{coalesce 0}} {{all 1 "" 2}} {{all}} {{any 0 ""}} {{any 0 1}} {{any}}
{{ternary "y" "n" true}} {{true | ternary "y" "n"}} {{ternary 1 2 (eq 1 2)}}
{{compact .list}} {{compact (list 0 1 "" "a" nil false)}} {{mustCompact .strings}}
{{compact "x"}}
{{compact nil}}
{{list 1 "a" nil}}
{{tuple}}
{{append .list 9}}
{{push .strings "z"}}
{{prepend .ints 0}}
{{mustAppend (list) 1}}
{{mustPush .none 1}}
{{append "x" 1}}
{{mustPrepend 5 1}}
{{prepend nil 1}}
{{first .list}}
{{last .list}}
{{rest .list}}
{{initial .list}}
{{first .none}}
{{rest .none}}
{{mustFirst .strings}}
{{mustLast .ints}}
{{first "x"}}
{{last 5}}
{{rest nil}}
{{mustInitial "x"}}
{{printf "%#v %#v" (rest list) (initial list)}} {{mustRest .ints}} {{mustInitial .ints}}
{{reverse .list}} {{mustReverse .strings}} {{reverse (list)}}
{{reverse "abc"}}
{{uniq .dup}} {{uniq (list .map .map (list 1) (list 1))}} {{mustUniq .strings}}
{{uniq 1}}
{{without .dup "a" 1}} {{without .list nil}} {{mustWithout .strings "a"}}
{{without "x" 1}}
{{has 1 .list}}
{{has "x" .list}}
{{has 2 .list}}
{{has 2.5 .list}}
{{has 1 nil}}
{{mustHas "a" .strings}}
{{has 3 .ints}}
{{has 1 "x"}}
{{slice .list 1 3}} {{slice .list 1}} {{slice .list}} {{slice .none}} {{mustSlice .strings 0 2}}
{{slice .list 3 1}}
{{slice "abc" 1}}
{{slice nil}}
{{concat .list .strings (list 9)}} {{concat}} {{concat (list)}}
{{concat "x"}}
{{chunk 2 .list}} {{chunk 3 .ints}} {{chunk 9 .ints}} {{mustChunk 1 .strings}} {{chunk 2 list}}
{{chunk 2 "x"}}
{{chunk 0 .ints}}
{{chunk 0 (list 1)}}
{{chunk -1 .ints}}
{{chunk -5 .ints}}
{{chunk -1 list}}
{{chunk -5 list}}
{{dict "a" 1 "b"}} {{dict 1 2}} {{dict}} {{dict "x" nil}}
{{get .map "one"}} {{get .map "absent"}}| {{get (dict "a" nil) "a"}} {{hasKey .map "one"}} {{hasKey .map "x"}}
{{set (dict "a" 1) "b" 2}} {{unset (dict "a" 1 "b" 2) "a"}} {{unset .nilmap "x"}}
{{set .nilmap "a" 1}}
{{pluck "one" .map (dict "one" 11) (dict)}} {{pick .map "one" "zz"}} {{omit .map "one" "sub" "nil"}} {{pick .map}}
{{keys .map | sortAlpha}} {{keys (dict "b" 1) (dict "a" 2) | sortAlpha}} {{values (dict "a" 1)}} {{keys}}
{{dig "sub" "deep" "d" .map}} {{dig "sub" "x" "d" .map}} {{dig "y" "z" "d" .map}} {{dig "one" "d" .map}}
{{dig "one" "x" "d" .map}}
{{dig "a" .map}}
{{dig 1 "d" .map}}
{{dig "nil" "x" "d" .map}}
{{merge (dict "a" 1) (dict "a" 2 "b" 3)}}
{{merge (dict) (dict "x" (dict "y" 1))}}
{{merge (dict "x" (dict "y" 1)) (dict "x" (dict "y" 2 "z" 3))}}
{{mergeOverwrite (dict "a" 1) (dict "a" 2 "b" 3)}}
{{mergeOverwrite (dict "x" (dict "y" 1)) (dict "x" (dict "y" 2 "z" 3))}}
{{merge (dict "a" (list 1)) (dict "a" (list 2) "b" (list 3))}}
{{mergeOverwrite (dict "a" (list 1)) (dict "a" (list 2))}}
{{mustMerge (dict "a" "" "b" 0) (dict "a" "x" "b" 5)}}
{{mustMergeOverwrite (dict "a" 1) (dict "a" nil)}}
{{merge (dict "a" 1) (dict "a" (dict "b" 2))}}
{{merge .nilmap (dict "a" 1)}} {{merge .nilmap}} {{mergeOverwrite (dict "a" (dict "b" 1)) (dict "a" "s")}}
{{deepCopy .map}}
{{mustDeepCopy .list}}
{{deepCopy 5}}
{{$d := dict "a" (dict "b" 1)}}{{$c := deepCopy $d}}{{$_ := set $c.a "b" 2}}{{$d}}{{$c}}
{{deepCopy nil}}
{{deepCopy (semver "1.2.3")}} {{deepCopy (list (semver "1.2.3"))}} {{deepCopy (toDate "2006-01-02" .date)}}
{{$d := dict "l" (list 1)}}{{$_ := set $d "me" (list $d)}}{{mustToJson $d}}
{{$d := dict}}{{$_ := set $d "me" $d}}{{mustToJson $d}}
{{$d := dict}}{{$_ := set $d "a" (dict "b" (list (list $d)))}}{{mustToJson (list $d)}}
{{deepEqual .list .list}}
{{deepEqual 1 1.0}}
{{deepEqual (list 1) (list 1)}}
{{deepEqual (list) .nillist}}
{{deepEqual nil nil}}
{{deepEqual .map (dict "one" 1)}}
{{typeOf 1}}
{{typeOf 1.5}}
{{typeOf "a"}}
{{typeOf nil}}
{{typeOf .list}}
{{typeOf .map}}
{{typeOf .labels}}
{{typeOf .i64}}
{{typeOf (semver "1.2.3")}}
{{kindOf 1}}
{{kindOf .list}}
{{kindOf .map}}
{{kindOf nil}}
{{kindOf true}}
{{kindOf .byte}}
{{kindOf (semver "1.2.3")}}
{{kindOf (toDate "2006" "2020")}}
{{typeIs "int" 1}}
{{typeIs "string" 1}}
{{typeIsLike "semver.Version" (semver "1.2.3")}}
{{kindIs "slice" .list}}
{{kindIs "map" .labels}}
{{toJson .map}}
{{toJson .list}}
{{toJson .html}}
{{toJson nil}}
{{toJson .labels}}
{{toJson .nillist}}
{{toJson .none}}
{{toJson .numbered}}
{{toJson 1e21}}
{{toJson 1e-7}}
{{toJson 1.0}}
{{toJson 123456789012.5}}
{{toJson .i64}}
{{toJson "é\u2028\u0001\t\b\f"}}
{{toJson 1i}}|
{{toPrettyJson .map}} {{toPrettyJson .none}} {{toPrettyJson (dict)}} {{toPrettyJson (list (list 1) (dict "a" 2))}}
{{toRawJson .html}} {{mustToJson .list}} {{mustToPrettyJson (list 1)}} {{mustToRawJson "<>"}}
{{mustToJson 1i}}
{{toRawJson 1i}}
{{$d := dict}}{{$_ := set $d "a" $d}}{{mustToJson $d}}
{{$d := dict}}{{$_ := set $d "a" (list $d)}}{{mustToJson $d}}
{{$d := dict}}{{$_ := set $d "a" (list $d)}}{{mustToPrettyJson (list $d)}}
{{$d := dict}}{{$_ := set $d "a" (list $d)}}{{mustToRawJson $d}}
{{$d := dict}}{{$_ := set $d "a" (list (list $d))}}{{toRawJson $d}}
{{$d := dict}}{{$_ := set $d "b" $d}}{{$_ := set $d "a" (list 1 (dict "x" $d))}}{{mustToJson (dict "k" $d)}}
{{fromJson .json}}
{{(fromJson .json).a}}
{{fromJson "bad"}}
{{fromJson "1"}}
{{fromJson "\"s\""}}
{{fromJson "null"}}
{{mustFromJson "[1, 2.5, true]"}}
{{mustFromJson ""}}
{{mustFromJson "{"}}
{{mustFromJson "{\"a\" 1}"}}
{{mustFromJson "[1,]"}}
{{mustFromJson "nul"}}
{{mustFromJson "1 2"}}
{{mustFromJson "\"\\x\""}}
{{mustFromJson "{a:1}"}}
{{mustFromJson "1e400"}}
{{mustFromJson "01"}}
{{b64enc "hello"}}
{{b64dec "aGVsbG8="}}
{{b64dec "aGVsbG8"}}
{{b64dec "@@"}}
{{b64dec ""}}
{{b64dec "aGVs⏎bG8="}}
{{b64enc .uni}}
{{b32enc "hello"}} {{b32dec "NBSWY3DP"}} {{b32dec "nbsw"}} {{b32dec "ME======"}} {{b32dec "ME"}} {{b32enc ""}}|
{{sha1sum "a"}} {{sha256sum "a"}} {{sha512sum "a"}} {{adler32sum "a"}} {{sha256sum .uni}}
{{regexMatch "^h.*o$" "hello"}}
{{regexMatch "[" "x"}}
{{mustRegexMatch "\\d+" "a1"}}
{{regexMatch "(?i)HELLO" "hello"}}
{{mustRegexMatch "[" "x"}}
{{mustRegexMatch "a**" "x"}}
{{mustRegexMatch "(?=x)" "x"}}
{{mustRegexMatch "a(b" "x"}}
{{mustRegexMatch "\\8" "x"}}
{{regexFind "[a-c]+" "xxabcabcx"}} {{regexFind "z" "abc"}}| {{mustRegexFind "b" "abc"}}
{{regexFind "(" "x"}}
{{regexFindAll "[2,4,6,8]" "123456789" -1}}
{{regexFindAll "a*" "baaac" -1}}
{{regexFindAll "x" "y" -1}}
{{regexFindAll "." "abc" 2}}
{{mustRegexFindAll "" "ab" -1}}
{{regexReplaceAll "a(x*)b" "-ab-axxb-" "${1}W"}}
{{regexReplaceAll "a(x*)b" "-ab-axxb-" "$1W"}}
{{regexReplaceAll "a*" "baac" "x"}}
{{regexReplaceAll "(?P<n>b)" "abc" "[$n$$$0]"}}
{{regexReplaceAllLiteral "a(x*)b" "-ab-axxb-" "${1}"}}
{{mustRegexReplaceAllLiteral "b" "abc" "$0"}}
{{mustRegexReplaceAll "b" "abc" "<$0>"}}
{{regexSplit "z+" "pizzazz" -1}}
{{regexSplit "z" "pizzazz" 2}}
{{regexSplit "" "abc" -1}}
{{regexSplit "a" "" -1}}
{{regexSplit "a" "b" 0}}
{{mustRegexSplit "," "a,b" -1}}
{{regexQuoteMeta "1.2.3 [x]*"}} {{regexFindAll "é|\\pL" "éa日" -1}} {{regexReplaceAll "(.)" "日本" "$1-"}}
{{semver "1.2.3-beta.1+123"}} {{semver "v1"}} {{semver "1.2"}} {{(semver "1.2.3").Minor}}
{{semver "x"}}
{{semver "1.2.3-01"}}
{{semver "99999999999999999999.0.0"}}
{{semverCompare ">=1.2" "1.2.3"}}
{{semverCompare "^1.2.0" "1.9.9"}}
{{semverCompare "~1.2" "1.3.0"}}
{{semverCompare "1.x" "1.5.0"}}
{{semverCompare "1.0 - 2.0" "1.5.0"}}
{{semverCompare ">1 <3 || 5" "5.0.0"}}
{{semverCompare "^0.2.3" "0.2.9"}}
{{semverCompare "^0.0.3" "0.0.4"}}
{{semverCompare "!=1.2.3" "1.2.3"}}
{{semverCompare "<=1.2" "1.2.9"}}
{{semverCompare ">=1.0.0-alpha" "1.0.0-beta"}}
{{semverCompare ">=1.0.0" "1.0.1-rc"}}
{{semverCompare "*" "3.2.1"}}
{{semverCompare "bad" "1.0.0"}}
{{semverCompare ">1" "bad"}}
{{semverCompare "" "1.0.0"}}
{{urlParse .url}} {{(urlParse "mailto:a@b").opaque}} {{(urlParse "//h:1/p").hostname}} {{urlParse ""}}
{{urlParse ":x"}}
{{urlParse "http://h:port/"}}
{{urlParse "%zz"}}
{{urlParse "http://[:1]/"}}
{{urlParse "http://[::1%25]/"}}
{{urlParse "http://[1.2.3.4]/"}}
{{urlParse "http://[1.2.3]/"}}
{{urlParse "http://[::1.2.3.256]/"}}
{{urlParse "http://[1::2::3]/"}}
{{urlParse "http://[12345::]/"}}
{{urlParse "http://[1:2:3]/"}}
{{urlParse "http://[1:2:3:4:5:6:7:8:9]/"}}
{{urlParse "http://[1:2:3:4:5:6:7::8]/"}}
{{urlParse "http://[x]/"}}
{{(urlParse "http://[fe80::1%25en0]:80/").host}}
{{urlJoin (dict "scheme" "http" "host" "h:80" "path" "/a b" "query" "q=1" "fragment" "f" "userinfo" "u:p@x")}}
{{urlJoin (dict)}}
{{urlJoin (dict "host" "h" "path" "p")}}
{{urlParse .url | urlJoin}}
{{urlJoin (dict "host" 5)}}
{{base "a/b.txt"}}
{{base ""}}
{{base "/"}}
{{dir "a/b/c"}}
{{dir ""}}
{{clean "a/../b//c/."}}
{{clean ""}}
{{clean "/../a"}}
{{ext "a.tar.gz"}}
{{ext "a"}}
{{isAbs "/a"}}
{{isAbs "a"}}
{{osBase "a/b.txt"}} {{osDir "a/b/c"}} {{osClean "a//b"}} {{osExt "x.y"}} {{osIsAbs "/x"}}
{{toDate "2006-01-02" .date}}
{{toDate "2006-01-02" "bad"}}
{{toDate "2006-01-02T15:04:05Z07:00" "2023-07-01T12:30:45.123+02:00"}}
{{toDate "Jan 2, 2006 at 3:04pm (MST)" "Feb 3, 2013 at 7:54pm (PST)"}}
{{mustToDate "2006-01-02" "2024-13-01"}}
{{mustToDate "2006-01-02" "2023-02-29"}}
{{mustToDate "2006-01-02" "x"}}
{{mustToDate "2006-01-02" "2024-02-29 extra"}}
{{mustToDate "15:04" "25:00"}}
{{mustToDate "2006-01-02" .date | unixEpoch}} {{toDate "02 Jan 06 15:04 -0700" "01 Feb 24 10:00 +0530" | unixEpoch}}
{{date_in_zone "2006-01-02 15:04:05 MST -07:00" (toDate "2006-01-02" .date) "America/New_York"}}
{{dateInZone "Mon Jan _2 3:04PM .000 06 002" (toDate "2006-01-02T15:04:05Z07:00" "2023-07-01T22:30:45.125Z") "Asia/Kolkata"}}
{{dateInZone "2006-01-02T15:04:05Z07:00" 1700000000 "UTC"}}
{{dateInZone "2006" .i64 "Nowhere"}}
{{date "2006-01-02" 0}}
{{htmlDate 86400}}
{{htmlDateInZone 1700000000 "Asia/Tokyo"}}
{{dateModify "1h30m" (toDate "2006-01-02" .date)}}
{{date_modify "-24h" (toDate "2006-01-02" .date)}}
{{dateModify "bad" (toDate "2006-01-02" .date)}}
{{must_date_modify "1.5h" (toDate "2006-01-02" .date)}}
{{mustDateModify "bad" (toDate "2006-01-02" .date)}}
{{mustDateModify "5" (toDate "2006-01-02" .date)}}
{{mustDateModify "5x" (toDate "2006-01-02" .date)}}
{{dateModify "1h" "x"}}
{{duration "95"}}
{{duration (int64 3661)}}
{{duration 95}}
{{duration "x"}}
{{durationRound "2h10m5s"}}
{{durationRound "800h"}}
{{durationRound "x"}}
{{durationRound "9000h"}}
{{durationRound (int64 5000000000)}}
{{durationRound "1.5s"}}
{{decryptAES "secret" ""}}| {{encryptAES "secret" "" }}|
{{decryptAES "secret" "!!"}}
{{decryptAES "secretkey" "30tEfhuJSVRhpG97XCuWgz2okj7L8vQ1s6V9zVUPeDQ="}}
{{derivePassword 1 "long" "password" "user" "example.com"}} {{derivePassword 1 "nope" "p" "u" "s"}}
{{htpasswd "a:b" "x"}} {{genPrivateKey "nope"}}
{{buildCustomCert "!" "x"}}
{{buildCustomCert "eA==" "!"}}
{{buildCustomCert "eA==" "eA=="}}
{{genCAWithKey "x" 1 "nokey"}}
{{genSignedCert "x" nil nil 1 "ca"}}
{{genSelfSignedCert "x" (list 1) nil 1}}
{{genSelfSignedCert "x" (list "nope") nil 1}}
{{genSelfSignedCert "x" nil (list 1) 1}}
{{fail "x"}}
"""
