// Syntax highlighting: comments, strings, numbers, keywords. One table of languages; unknown languages use
// common rules.

import { element, type Tree } from "./tree";

interface Language {
  names: string;
  keywords: string;
  comment: string; // a regular expression
  strings?: string;
  ignoreCase?: boolean;
}

const slashes = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const hash = String.raw`#[^\n]*`;
const quotes = String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?`;
const backticks = "`(?:[^`\\\\]|\\\\[\\s\\S])*`?";
const triple = String.raw`[rbfu]{0,2}"""[\s\S]*?(?:"""|$)|[rbfu]{0,2}'''[\s\S]*?(?:'''|$)|[rbfu]{0,2}"(?:[^"\\\n]|\\.)*"?|[rbfu]{0,2}'(?:[^'\\\n]|\\.)*'?`;

const c =
  "if else for while do switch case default break continue return goto sizeof struct union enum typedef static extern const volatile register inline void char short int long float double signed unsigned bool true false";

const languages: Language[] = [
  {
    names: "js javascript jsx ts typescript tsx mjs",
    keywords:
      "abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends false finally for from function get if implements import in infer instanceof interface is keyof let namespace never new null number object of private protected public readonly return satisfies set static string super switch this throw true try type typeof undefined unknown var void while with yield",
    comment: slashes,
    strings: `${quotes}|${backticks}`,
  },
  {
    names: "py python python3",
    keywords:
      "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match case None nonlocal not or pass raise return self True try while with yield",
    comment: hash,
    strings: triple,
  },
  {
    names: "c h cpp c++ cc cxx hpp cuda cu",
    keywords: `${c} alignas auto catch class concept consteval constexpr constinit co_await co_return co_yield decltype delete dynamic_cast explicit friend mutable namespace new noexcept nullptr operator override private protected public reinterpret_cast requires static_assert static_cast template this thread_local throw try typename using virtual wchar_t include define ifdef ifndef endif pragma __global__ __device__ __host__ __shared__`,
    comment: slashes,
  },
  {
    names: "rs rust",
    keywords:
      "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while i8 i16 i32 i64 u8 u16 u32 u64 usize isize f32 f64 bool char str String Vec Option Result Some None Ok Err",
    comment: slashes,
    strings: String.raw`"(?:[^"\\]|\\[\s\S])*"?|'(?:[^'\\\n]|\\.)'`,
  },
  {
    names: "go golang",
    keywords:
      "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false string int int64 float64 bool byte error",
    comment: slashes,
    strings: `${quotes}|${backticks}`,
  },
  {
    names: "java kotlin kt scala cs csharp c# swift dart php",
    keywords:
      "abstract as async await base boolean bool break byte case catch char class const continue data default do double else enum extends extension false final finally float for foreach fun func function guard if implements import in instanceof int interface internal is let long namespace new nil null object open operator out override package private protected public record return sealed short static string String struct super switch this throw throws true try typealias using val var virtual void when where while with yield",
    comment: slashes,
  },
  {
    names: "sh bash shell zsh console",
    keywords:
      "if then else elif fi for in do done while until case esac function return local export readonly set unset shift exit trap source echo cd sudo",
    comment: String.raw`(?<=^|\s)#[^\n]*`,
    strings: String.raw`"(?:[^"\\]|\\[\s\S])*"?|'[^']*'?`,
  },
  { names: "json json5 jsonc", keywords: "true false null", comment: slashes },
  { names: "yaml yml toml ini", keywords: "true false null yes no on off", comment: String.raw`(?<=^|\s)[#;][^\n]*` },
  {
    names: "sql",
    keywords:
      "select from where and or not in is null as join left right inner outer full on group by order having limit offset insert into values update set delete create table index view drop alter add primary key foreign references unique default case when then else end distinct union all exists between like asc desc with over partition integer int text varchar boolean timestamp",
    comment: String.raw`--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`,
    ignoreCase: true,
  },
  {
    names: "html xml svg vue",
    keywords: "",
    comment: String.raw`<!--[\s\S]*?(?:-->|$)`,
  },
  { names: "css scss less", keywords: "important media supports import keyframes from to", comment: String.raw`\/\*[\s\S]*?(?:\*\/|$)` },
  {
    names: "rb ruby lua r julia elixir ex perl",
    keywords:
      "alias and begin break case class def defined do else elseif elsif end ensure false for function if in local module next nil not or redo repeat require rescue retry return self super then true undef unless until when while yield",
    comment: `${hash}|--[^\\n]*`,
  },
];

const common: Language = {
  names: "",
  keywords: "if else for while do switch case break continue return function def class import from const let var new true false null None True False",
  comment: slashes,
};

const plain = new Set(["", "text", "txt", "plain", "plaintext", "output", "log", "md", "markdown"]);

// Highlights lines that start with `-`, `+` or `@@`.
function diff(code: string): Tree[] {
  return code.split(/(?<=\n)/).map((line) => {
    const kind = line.startsWith("@@") ? "tok-keyword" : line.startsWith("+") ? "tok-add" : line.startsWith("-") ? "tok-remove" : "";
    return kind ? element("span", [line], { class: kind }) : line;
  });
}

interface Compiled {
  pattern: RegExp;
  keywords: Set<string>;
  ignoreCase: boolean;
}

const compiled = new Map<Language, Compiled>();

function compile(language: Language): Compiled {
  const ready = compiled.get(language);
  if (ready) return ready;
  const number = String.raw`\b(?:0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\w{0,3}\b`;
  const made = {
    pattern: new RegExp(
      `(?<comment>${language.comment})|(?<string>${language.strings ?? quotes})|(?<number>${number})|(?<word>[A-Za-z_$][\\w$]*)`,
      "gm",
    ),
    keywords: new Set(language.keywords.split(" ")),
    ignoreCase: language.ignoreCase ?? false,
  };
  compiled.set(language, made);
  return made;
}

const longest = 100_000; // characters; longer code is not highlighted

export function highlight(code: string, name: string): Tree[] {
  const wanted = name.toLowerCase();
  if (plain.has(wanted) || code.length > longest) return [code];
  if (wanted === "diff" || wanted === "patch") return diff(code);
  const language = languages.find((entry) => entry.names.split(" ").includes(wanted)) ?? common;
  const { pattern, keywords, ignoreCase } = compile(language);
  const out: Tree[] = [];
  let end = 0;
  for (const match of code.matchAll(pattern)) {
    const groups = match.groups!;
    const word = groups.word && (ignoreCase ? groups.word.toLowerCase() : groups.word);
    const kind =
      groups.comment !== undefined ? "comment"
      : groups.string !== undefined ? "string"
      : groups.number !== undefined ? "number"
      : word && keywords.has(word) ? "keyword"
      : code[match.index + match[0].length] === "(" ? "call"
      : "";
    if (!kind) continue;
    if (match.index > end) out.push(code.slice(end, match.index));
    out.push(element("span", [match[0]], { class: `tok-${kind}` }));
    end = match.index + match[0].length;
  }
  if (end < code.length) out.push(code.slice(end));
  return out;
}
