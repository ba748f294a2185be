"""Generates random templates. Usage: generate.py COUNT SEED OUT. Values are small, so that rendering ends quickly."""

import json
import random
import sys

NAMES = (
    "n m zero f g one yes no nothing s empty blank quote uni digits lines csv html list words mixed nested "
    "none_left d deep void users messages tools zzz loop x y"
).split()
LITERALS = (
    "0 1 2 -1 3 10 2.5 0.1 1e3 true false none 'a' 'ab' '' 'l' ' ' \"it's\" '\\n' 'é' [] {} () [1,2] "
    "['a','b'] (1,'a') {'a':1,'b':2} range(3)"
).split()
ATTRIBUTES = "name age city role content x y a b zzz tags function v kids".split()
FILTERS = (
    "upper lower title capitalize trim length first last list sort reverse|list join string int float abs round "
    "min max sum unique|list tojson default d items|list dictsort count wordcount e safe urlencode indent "
    "select|list reject|join "
    "default('q') default('q',true) join(',') join('-') replace('a','b') replace('l','') replace('','-') int(5) "
    "float(1.5) round(1) round(1,'floor') batch(2)|list slice(2)|list map('string')|join(',') map('upper')|list "
    "map('length')|sum map(attribute='name')|list map(attribute='zzz',default='?')|join select('string')|list "
    "select('number')|list reject('none')|list select('defined')|first selectattr('age')|list selectattr('age')|length "
    "selectattr('role','equalto','user')|list rejectattr('age')|list "
    "groupby('city') sort(reverse=true) sort(attribute='name') sort(case_sensitive=true) dictsort(true) "
    "tojson(indent=2) tojson(ensure_ascii=true) tojson(sort_keys=true) tojson(separators=(',',':')) "
    "indent(2) indent(2,true) indent('>',true,true) trim('a') format(1) center(9) truncate(5) unique(true)|list "
    "sum(start=1) min(attribute='age') first|upper attr('x')"
).split()
TESTS = (
    "defined undefined none string number mapping sequence iterable odd even true false boolean integer float "
    "lower upper callable escaped divisibleby(2) in([1,'a']) eq(1) gt(0) sameas(none)"
).split()
METHODS = (
    "upper() lower() title() capitalize() swapcase() strip() strip('aH') lstrip() rstrip() split() split('l') "
    "split(',',1) rsplit('o',1) splitlines() startswith('H') endswith(('d','x')) replace('l','L') replace('','.',2) "
    "find('o') rfind('o') count('l') index('o') isdigit() isalpha() isalnum() isspace() isupper() islower() istitle() "
    "zfill(4) center(7,'*') ljust(6) rjust(6) removeprefix('He') removesuffix('ld') partition('o') join(['x','y']) "
    "join(words) format(1) items() keys() values() get('a') get('zzz',1) copy() count(1) index(1) append(1) update({})"
).split()
TEXT_METHODS = [m for m in METHODS if m.split("(")[0] in (
    "upper lower title capitalize swapcase strip lstrip rstrip replace zfill center ljust rjust removeprefix "
    "removesuffix").split()]
TEXT_FILTERS = (
    "upper lower title capitalize trim trim('aH') replace('l','L') replace('','-',3) indent indent(2,true) "
    "indent('>',true,true) e safe urlencode reverse string center(20) truncate(5) truncate(7,true,'~',0) tojson "
    "default('x',true) first|default last|default"
).split()
BINARY = "+ - * / // % ~ == != < > <= >= and or in".split() + ["not in"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, items):
        return self.random.choice(items)

    def atom(self):
        return self.pick(NAMES) if self.random.random() < 0.7 else self.pick(LITERALS)

    def expression(self, depth=3):
        if depth == 0:
            return self.atom()
        e = lambda: self.expression(depth - 1)
        return self.pick(
            [
                self.atom,
                lambda: f"{e()}|{self.pick(FILTERS)}",
                lambda: f"{e()}|{self.pick(FILTERS)}|{self.pick(FILTERS)}",
                lambda: f"({e()}).{self.pick(METHODS)}",
                lambda: f"{self.pick(NAMES)}.{self.pick(METHODS)}",
                lambda: f"({e()}).{self.pick(ATTRIBUTES)}",
                lambda: f"({e()})[{self.pick(LITERALS)}]",
                lambda: f"{self.pick(NAMES)}[{self.bound()}:{self.bound()}{self.pick(['', ':2', ':-1'])}]",
                lambda: f"({e()}) {self.pick(BINARY)} ({e()})",
                lambda: f"{e()} {self.pick(BINARY)} {e()}",
                lambda: f"({e()}) is {self.pick(['', 'not '])}{self.pick(TESTS)}",
                lambda: f"({e()} if {e()} else {e()})",
                lambda: f"({e()} if {e()})",
                lambda: f"not {e()}",
                lambda: f"-({e()})",
                lambda: f"[{e()}, {e()}]",
                lambda: f"({e()}, {e()})",
                lambda: f"{{'a': {e()}, 'k': {e()}}}",
                lambda: f"'%s|%5s' % ({e()}, {e()})",
                lambda: f"'{{}}|{{!r}}'.format({e()}, {e()})",
            ]
        )()

    def typed(self, kind, depth):
        """An expression that is probably valid and of the given kind: text, number, list, dict or bool."""
        text, number, many, mapping, truth = (
            lambda k=k: self.typed(k, depth - 1) for k in ("text", "number", "list", "dict", "bool")
        )
        leaves = {
            "text": "s empty blank quote quotes uni digits lines csv html 'a' 'l' '\\n\\t' \"it's\" users[0].name messages[0].role".split(),
            "number": "n m zero f g one tiny 0 1 2 -1 3 10 2.5 0.1 1e3 true users[1].age".split(),
            "list": "list words mixed none_left nested[1] users messages [1,2,3] ['a','b'] range(4)|list (3,1)".split(),
            "dict": "d deep void odd users[0] messages[1] tools[0].function {'a':1} {} {'b':'x','a':[1]}".split(),
            "bool": "yes no true false".split() + ["n == 7", "s is string", "zzz is defined", "'l' in s"],
        }
        if depth == 0:
            return self.pick(leaves[kind])
        choices = {
            "text": [
                lambda: f"({text()} + {text()})", lambda: f"({text()} ~ {self.expression(1)})",
                lambda: f"({text()}).{self.pick(TEXT_METHODS)}", lambda: f"{text()}|{self.pick(TEXT_FILTERS)}",
                lambda: f"({many()})|join({text()})", lambda: f"({many()}|map('string')|list)|join('/')",
                lambda: f"({mapping()})|tojson{self.pick(['', '(indent=1)', '(sort_keys=true)', '(ensure_ascii=true)'])}",
                lambda: f"({many()})|tojson", lambda: f"({text()})[{self.bound()}:{self.bound()}{self.pick(['', ':2', ':-1'])}]",
                lambda: f"({text()} * 2)", lambda: f"({many()})|string", lambda: f"({number()})|string",
                lambda: f"'%s:%r' % ({text()}, {self.typed(self.pick(list(leaves)), depth - 1)})",
                lambda: f"'{{:>9}}|{{!r}}'.format({text()}, {number()})", lambda: f"'%6.2f|%-5d|%x' % ({number()}, n, n)",
                lambda: f"({text()}).split({text()} or 'x')|join('|')", lambda: f"({text()} if {truth()} else {text()})",
                lambda: f"({text()}).replace({text()}, {text()})",
            ],
            "number": [
                lambda: f"({number()} {self.pick('+ - *'.split())} {number()})", lambda: f"({number()} // 3)", lambda: f"({number()} % 4)",
                lambda: f"({number()} / 8)", lambda: f"-({number()})", lambda: f"({text()})|length", lambda: f"({many()})|length",
                lambda: f"({text()}).{self.pick(['find', 'count', 'rfind'])}({text()})", lambda: f"({number()})|round({self.pick('0 1 2 -1'.split())})",
                lambda: f"({number()})|int", lambda: f"({number()})|float", lambda: f"({text()})|int(3)", lambda: f"({number()})|abs",
                lambda: f"[{number()}, {number()}]|{self.pick(['max', 'min', 'sum'])}", lambda: f"({text()})|wordcount",
            ],
            "list": [
                lambda: f"[{self.typed(self.pick(list(leaves)), depth - 1)}, {self.typed(self.pick(list(leaves)), depth - 1)}]",
                lambda: f"({many()})[{self.bound()}:{self.bound()}{self.pick(['', ':2', ':-1'])}]", lambda: f"({text()})|list",
                lambda: f"({text()}).{self.pick(['split()', 'splitlines()', 'rsplit(none, 1)', 'partition(chr)'])}".replace("chr", "'l'"),
                lambda: f"({many()})|select('{self.pick(['string', 'number', 'defined', 'mapping', 'iterable', 'none'])}')|list",
                lambda: f"({many()})|reject('{self.pick(['string', 'number', 'sequence', 'boolean'])}')|list",
                lambda: f"({many()})|reverse|list", lambda: f"({many()})|batch(2)|list", lambda: f"({many()})|slice(2, 'f')|list",
                lambda: f"({many()}|list + [{number()}])", lambda: f"users|{self.pick(['selectattr', 'rejectattr'])}('{self.pick(ATTRIBUTES)}')|list",
                lambda: f"users|map(attribute='{self.pick(ATTRIBUTES)}', default={text()})|list", lambda: f"({mapping()})|items|list",
                lambda: f"({mapping()}).{self.pick(['keys()', 'values()', 'items()'])}|list", lambda: f"({mapping()})|dictsort",
                lambda: f"[{text()}, {text()}, {text()}]|{self.pick(['sort', 'unique|list', 'sort(true)', 'sort(case_sensitive=true)', 'map(str)|list'])}".replace("str", "'upper'"),
                lambda: f"[{number()}, {number()}, {number()}]|{self.pick(['sort', 'unique|list', 'sort(reverse=true)', 'select(odd)|list'])}".replace("odd", "'gt', 1"),
            ],
            "dict": [
                lambda: f"{{'a': {number()}, 'k': {self.typed(self.pick(list(leaves)), depth - 1)}}}", lambda: f"dict({mapping()}, z={text()})",
                lambda: f"{{{text()}: {number()}, {number()}: {many()}}}",
            ],
            "bool": [
                lambda: f"({number()} {self.pick('< > <= >= == !='.split())} {number()})", lambda: f"({text()} {self.pick('< > == in'.split())} {text()})",
                lambda: f"not {truth()}", lambda: f"({truth()} {self.pick(['and', 'or'])} {truth()})", lambda: f"({text()} in ({many()}))",
                lambda: f"({text()} in ({mapping()}))", lambda: f"({self.typed(self.pick(list(leaves)), depth - 1)}) is {self.pick(['not ', ''])}{self.pick(TESTS)}",
                lambda: f"({text()}).{self.pick(['isdigit()', 'isalpha()', 'startswith(chr)', 'endswith((chr, chr))', 'isupper()', 'isspace()'])}".replace("chr", "'H'"),
                lambda: f"({many()}) == ({many()})", lambda: f"(({mapping()}).{self.pick(ATTRIBUTES)} is defined)",
            ],
        }
        return self.pick(choices[kind])()

    def any_typed(self, depth):
        return self.typed(self.pick(["text", "text", "number", "list", "dict", "bool"]), depth)

    def bound(self):
        return self.pick(["", "", "0", "1", "2", "-1", "-2", "5"])

    def space(self):
        return self.pick(["", "", " ", "\n", "\n  ", "  "])

    def tag(self, text):
        return f"{self.space()}{{%{self.pick(['', '', '-', '+'])} {text} {self.pick(['', '', '-', '+'])}%}}{self.space()}"

    def output(self):
        return f"{self.space()}{{{{{self.pick(['', '', '-'])} {self.any_typed(self.random.randint(0, 3))} {self.pick(['', '', '-'])}}}}}{self.space()}"

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.random.randint(1, 3)))

    def statement(self, depth):
        if depth == 0 or self.random.random() < 0.4:
            return self.pick([self.output, lambda: self.pick(["text", "a\n", " b ", "{# c #}", "\n"])])()
        b = lambda: self.body(depth - 1)
        e = lambda: self.any_typed(2)
        return self.pick(
            [
                lambda: self.tag(f"if {e()}") + b() + self.tag("endif"),
                lambda: self.tag(f"if {e()}") + b() + self.tag("else") + b() + self.tag("endif"),
                lambda: self.tag(f"if {e()}") + b() + self.tag(f"elif {e()}") + b() + self.tag("endif"),
                lambda: self.tag(f"for x in {e()}") + b() + self.tag("endfor"),
                lambda: self.tag(f"for x in {self.pick(['list', 'words', 'users', 'messages', 'd', 's'])}")
                + b() + self.loop_use() + self.tag("else") + b() + self.tag("endfor"),
                lambda: self.tag(f"for x, y in {self.pick(['d.items()', 'nested', 'd|dictsort', e()])}")
                + b() + self.loop_use() + self.tag("endfor"),
                lambda: self.tag(f"for x in {self.pick(['list', 'mixed'])} if {e()}") + b() + self.loop_use() + self.tag("endfor"),
                lambda: self.tag(f"set x = {e()}"),
                lambda: self.tag("set y") + b() + self.tag("endset"),
                lambda: self.tag(f"with y = {e()}") + b() + self.tag("endwith"),
                lambda: self.tag("filter upper") + b() + self.tag("endfilter"),
                lambda: self.tag("macro mac(x, y=1)") + b() + self.tag("endmacro") + f"{{{{ mac({e()}) }}}}",
                lambda: self.tag("for x in list") + self.tag(f"if {e()}") + self.tag(self.pick(["break", "continue"]))
                + self.tag("endif") + b() + self.tag("endfor"),
                lambda: self.tag("set ns = namespace(v=0)") + self.tag("for x in list") + self.tag("set ns.v = ns.v + x")
                + self.tag("endfor") + "{{ ns.v }}",
            ]
        )()

    def loop_use(self):
        return "{{ loop." + self.pick("index index0 first last length revindex previtem nextitem".split()) + " }}"

    def template(self):
        choice = self.random.random()
        if choice < 0.2:
            return "{{ " + self.expression(self.random.randint(1, 3)) + " }}"
        if choice < 0.7:
            return "{{ " + self.any_typed(self.random.randint(1, 4)) + " }}"
        return self.body(3)


def main():
    generator = Generator(int(sys.argv[2]))
    templates = []
    while len(templates) < int(sys.argv[1]):
        text = generator.template()
        if len(text) < 600:
            templates.append(text)
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        json.dump(templates, file)


if __name__ == "__main__":
    main()
