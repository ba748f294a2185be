"""Renders templates with Python's jinja2 in the environment of Transformers' chat templates.

Usage: reference.py CASES RESULTS

CASES is a JSON list of {"template": …, "variables": {…}, "now": seconds}. RESULTS is written as a
list of {"text": …} or {"error": …} in the same order.
"""

import datetime
import json
import sys
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """Transformers' {% generation %}, without recording token positions."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_generation_support")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(lineno)

    @jinja2.pass_eval_context
    def _generation_support(self, context, caller):
        return caller()


def environment(now):
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def strftime_now(format):
        return datetime.datetime.fromtimestamp(now).strftime(format)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(case, compiled):
    key = (case["template"], case["now"])
    try:
        if key not in compiled:
            compiled[key] = environment(case["now"]).from_string(case["template"])
        text = compiled[key].render(**case["variables"])
        text.encode("utf-8")
        return {"text": text}
    except Exception as error:  # graft must fail too
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    warnings.simplefilter("ignore")  # Python warnings about the code that Jinja generates
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    compiled = {}
    results = [render(case, compiled) for case in cases]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
