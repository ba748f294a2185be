// LaTeX commands that stand for one character or name.

function table(text: string): Map<string, string> {
  const words = text.trim().split(/\s+/);
  const out = new Map<string, string>();
  for (let i = 0; i + 1 < words.length; i += 2) out.set(words[i]!, words[i + 1]!);
  return out;
}

// Written as identifiers.
export const letters = table(`
  alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ
  nu ν xi ξ pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω
  Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω
  hbar ℏ ell ℓ imath ı jmath ȷ Re ℜ Im ℑ wp ℘ aleph ℵ infty ∞ emptyset ∅ varnothing ∅ partial ∂ nabla ∇
  angle ∠ triangle △ square □ Box □ bot ⊥ top ⊤ prime ′ degree ° checkmark ✓ dagger † ddagger ‡ S § P ¶ pounds £
  ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱ dotsc … dotsb ⋯
`);

export const operators = table(`
  pm ± mp ∓ times × div ÷ cdot ⋅ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙ wedge ∧ land ∧ vee ∨
  lor ∨ cap ∩ cup ∪ setminus ∖ neg ¬ lnot ¬ forall ∀ exists ∃ nexists ∄ sqcup ⊔ sqcap ⊓ uplus ⊎ wr ≀ amalg ⨿
  le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ ll ≪ gg ≫ approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅ propto ∝ asymp ≍ doteq ≐
  leqslant ⩽ geqslant ⩾ lesssim ≲ gtrsim ≳ prec ≺ succ ≻ preceq ⪯ succeq ⪰ coloneqq ≔
  in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ nsubseteq ⊈ mid ∣ nmid ∤ parallel ∥ perp ⟂
  models ⊨ vdash ⊢ dashv ⊣ therefore ∴ because ∵ colon :
  to → rightarrow → leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ implies ⟹ Leftarrow ⇐ impliedby ⟸
  Leftrightarrow ⇔ iff ⟺ mapsto ↦ longrightarrow ⟶ longleftarrow ⟵ longmapsto ⟼ Longrightarrow ⟹ hookrightarrow ↪
  uparrow ↑ downarrow ↓ Uparrow ⇑ Downarrow ⇓ nearrow ↗ searrow ↘ rightharpoonup ⇀ rightleftharpoons ⇌ leadsto ⇝
  lbrace { rbrace } { { } } | ‖ Vert ‖ vert | lvert | rvert | lVert ‖ rVert ‖ langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋
  lceil ⌈ rceil ⌉ lbrack [ rbrack ] backslash \\ % % # # $ $ & & _ _
`);

// With limits above and below in displayed formulas.
export const bigOperators = table(`
  sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigvee ⋁ bigwedge ⋀ bigsqcup ⨆ biguplus ⨄
  lim lim limsup lim-sup liminf lim-inf max max min min sup sup inf inf argmax arg-max argmin arg-min det det Pr Pr gcd gcd
`);
for (const [name, text] of bigOperators) bigOperators.set(name, text.replace("-", "\u2009"));

export const integrals = table("int ∫ iint ∬ iiint ∭ oint ∮");

export const functions = new Set(
  "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth exp log ln lg dim ker deg arg hom".split(" "),
);

// Widths in em.
export const spaces: Record<string, number> = {
  ",": 0.167, ":": 0.222, ">": 0.222, ";": 0.278, "!": -0.167, " ": 0.25, thinspace: 0.167, medspace: 0.222, enspace: 0.5, quad: 1, qquad: 2,
};

// Accents above; true: as wide as the base.
export const accents: Record<string, [string, boolean]> = {
  hat: ["^", false], widehat: ["^", true], bar: ["¯", false], overline: ["¯", true], vec: ["→", false], overrightarrow: ["→", true],
  dot: ["˙", false], ddot: ["¨", false], tilde: ["~", false], widetilde: ["~", true], check: ["ˇ", false], breve: ["˘", false],
  overbrace: ["⏞", true],
};

export const under: Record<string, string> = { underline: "_", underbrace: "⏟" };

export type Style = "normal" | "bold" | "blackboard" | "script" | "fraktur" | "sans" | "mono";

export const styles: Record<string, Style> = {
  mathrm: "normal", mathup: "normal", mathbf: "bold", boldsymbol: "bold", bm: "bold", mathbb: "blackboard", mathcal: "script", mathscr: "script",
  mathfrak: "fraktur", mathsf: "sans", mathtt: "mono", mathit: "normal",
};

// First code points of A, a and 0 in Unicode's mathematical alphabets.
const starts: Record<Exclude<Style, "normal">, [number, number, number | undefined]> = {
  bold: [0x1d400, 0x1d41a, 0x1d7ce],
  blackboard: [0x1d538, 0x1d552, 0x1d7d8],
  script: [0x1d49c, 0x1d4b6, undefined],
  fraktur: [0x1d504, 0x1d51e, undefined],
  sans: [0x1d5a0, 0x1d5ba, 0x1d7e2],
  mono: [0x1d670, 0x1d68a, 0x1d7f6],
};

// Letters that Unicode had before these alphabets.
const older: Partial<Record<Style, Record<string, string>>> = {
  blackboard: { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" },
  script: { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" },
  fraktur: { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" },
};

export function styled(char: string, style: Style): string {
  if (style === "normal") return char;
  const [upper, lower, digit] = starts[style];
  const code = char.charCodeAt(0);
  const found = older[style]?.[char];
  if (found) return found;
  if (/^[A-Z]$/.test(char)) return String.fromCodePoint(upper + code - 65);
  if (/^[a-z]$/.test(char)) return String.fromCodePoint(lower + code - 97);
  return /^\d$/.test(char) && digit ? String.fromCodePoint(digit + code - 48) : char;
}
