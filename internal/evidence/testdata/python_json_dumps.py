"""Writes python_json_dumps.jsonl: JSON texts, and what Python's json module makes of them.

LoopGrid hashes json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) of what json.loads read. Each line
is {"text": T, "canonical": C}; C is null where Python has no canonical form that can be written as UTF-8 JSON. Made with
Python 3.11: python3 python_json_dumps.py > python_json_dumps.jsonl
"""

import json
import random
import struct

draw = random.Random(20260719)

NUMBERS = """0 -0 1 -1 9007199254740993 -9007199254740993 18446744073709551616 123456789012345678901234567890
0.0 -0.0 720.0 720.00 7.2e2 7.2E+2 7.2e+02 72000e-2 1e2 1E2 1e+2 1.10 0.1 0.10 1e-1 0.30000000000000004 1e15 1e16 1e17
123456789012345.0 1234567890123456.0 12345678901234567.0 9999999999999998.0 9999999999999999.0 99999999999999990.0
9007199254740993.0 0.001 0.0001 0.00001 0.00012 0.000012 1e-4 1e-5 1e-6 1e-7 1.5e-5 5e-324 4.9e-324 2e-324 1e-323 1e-400
-1e-400 2.2250738585072014e-308 2.2250738585072011e-308 1.7976931348623157e308 1.7976931348623158e308 1e308 1e309 1e400 -1e400
1e22 1e23 1e21 100000000000000000000.0 1000000000000000000000.0 4.35 0.5 2.5 3.4028234663852886e38 6.02214076e23
0.1e1 10.0e-1 1e0 1e00 0e0 0e5 -0e5 0.0e-5 1.0e-0""".split()

STRINGS = [
    "", "a", "\u00e9", "e\u0301", "\u2028", "\u2029", "\u0085", "\ufeff", "\u202e", "\U0001f600", "\U0010ffff", "\uffff", "\ufffd",
    "\ud7ff", "\ue000", "<>&'", "/", "\\", '"', "\x7f", "\x80", "\u00ff", "".join(map(chr, range(32))), "\\u00e9", "null", "{}", " ",
    "\ud800", "\udc00", "\udc00\ud800",
]


def spell_char(c):
    code = ord(c)
    if c in '"\\' or code < 32:
        short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(c)
        return short if short and draw.random() < 0.7 else "\\u%04x" % code
    if 0xD800 <= code < 0xE000:
        return "\\u%04x" % code
    if draw.random() < 0.2:
        if code > 0xFFFF:
            code -= 0x10000
            return "\\u%04x\\u%04X" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF))
        return ("\\u%04x" if draw.random() < 0.5 else "\\u%04X") % code
    return "\\/" if c == "/" and draw.random() < 0.5 else c


def spell_string(s):
    return '"' + "".join(map(spell_char, s)) + '"'


def blank():
    return draw.choice(["", "", "", "", " ", "\n", "\t", "\r\n", "  "])


def some_float():
    while True:
        f = struct.unpack("<d", struct.pack("<Q", draw.getrandbits(64)))[0]
        if f - f == 0:
            return f


def spell_number():
    kind = draw.randrange(7)
    if kind == 0:
        return draw.choice([n for n in NUMBERS if "e3" not in n.lower() and "400" not in n])
    if kind == 1:
        return str(draw.getrandbits(draw.choice([8, 32, 53, 54, 64, 200])) * draw.choice([1, -1]))
    if kind == 2:
        return repr(some_float())
    if kind == 3:
        return "%.*e" % (draw.randrange(25), draw.uniform(-1, 1) * 10 ** draw.randrange(-8, 20))
    if kind == 4:
        return "%.*f" % (draw.randrange(1, 12), draw.uniform(-1e6, 1e6))
    if kind == 5:
        return "%d.%0*d" % (draw.randrange(10**6), draw.randrange(1, 8), draw.randrange(10))
    return "%de%s%02d" % (draw.randrange(-99, 99), draw.choice(["", "+", "-"]), draw.randrange(25))


def some_string():
    if draw.random() < 0.3:
        return draw.choice(STRINGS[:-3])
    alphabet = 'abcABC019_ -/"\\\n\t\x00\x1f\x7f\x80\u00e9\u00ff\u0394\u2028\u2029\u0085\ud7ff\ue000\uffff\U00010000\U0001f600\U0010ffff'
    return "".join(draw.choice(alphabet) for _ in range(draw.randrange(8)))


def spell(depth):
    kind = draw.randrange(8 if depth else 5)
    if kind <= 1:
        return spell_number()
    if kind <= 3:
        return spell_string(some_string())
    if kind == 4:
        return draw.choice(["true", "false", "null", "{}", "[]", "{ }", "[\n]"])
    parts = []
    for _ in range(draw.randrange(5)):
        value = blank() + spell(depth - 1) + blank()
        parts.append(value if kind == 5 else blank() + spell_string(some_string()) + blank() + ":" + value)
    return ("[" + ",".join(parts) + "]") if kind == 5 else ("{" + ",".join(parts) + "}")


def canonical(text):
    try:
        made = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        made.encode("utf-8")
        return made
    except ValueError:
        return None


texts = list(NUMBERS) + ["[" + n + "]" for n in ("1e400", "-1e400")] + [spell_string(s) for s in STRINGS]
texts += ['{"a":1,"a":2}', '{"b":1,"a":2,"b":3}', '{"\\u0061":1,"a":{"x":1},"a":{"y":2}}', '{"":1," ":2,"":3}']
texts += ["{" + ",".join(spell_string(s) + ":" + str(i) for i, s in enumerate(STRINGS[:-3])) + "}"]
texts += ["[" * 60 + "]" * 60, '{"a":' * 60 + "1" + "}" * 60]
texts += ["[" + ",".join(repr(some_float()) for _ in range(25)) + "]" for _ in range(80)]
texts += ["[" + ",".join(spell_number() for _ in range(12)) + "]" for _ in range(120)]
texts += [blank() + spell(4) + blank() for _ in range(700)]
for text in texts:
    print(json.dumps({"text": text, "canonical": canonical(text)}, separators=(",", ":")))
