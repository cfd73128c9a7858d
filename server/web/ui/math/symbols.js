// The characters of TeX's names. Each table is name -> characters.

function table(text) {
  return new Map(text.trim().split(/\s+/).map((pair) => {
    const cut = pair.indexOf('=', 1);
    return [pair.slice(0, cut), pair.slice(cut + 1)];
  }));
}

/** Letters: set slanted, as variables are. */
export const kLetters = table(`
alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ varkappa=ϰ
lambda=λ mu=μ nu=ν xi=ξ omicron=ο pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ
chi=χ psi=ψ omega=ω ell=ℓ imath=ı jmath=ȷ hbar=ℏ hslash=ℏ partial=∂`);

/** Letters and signs that stand upright. */
export const kUpright = table(`
Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω aleph=ℵ beth=ℶ gimel=ℷ infty=∞
nabla=∇ emptyset=∅ varnothing=∅ Re=ℜ Im=ℑ wp=℘ top=⊤ bot=⊥ angle=∠ triangle=△ square=□ Box=□ blacksquare=■ qed=∎
diamond=◇ lozenge=◊ clubsuit=♣ diamondsuit=♢ heartsuit=♡ spadesuit=♠ flat=♭ natural=♮ sharp=♯ checkmark=✓ degree=°
prime=′ dots=… ldots=… cdots=⋯ vdots=⋮ ddots=⋱ dotsc=… dotsb=⋯ forall=∀ exists=∃ nexists=∄ neg=¬ lnot=¬ complement=∁
dagger=† ddagger=‡ S=§ P=¶ copyright=© pounds=£ euro=€ yen=¥ %=% #=# &=& $=$ _=_ bigstar=★ star=⋆ eth=ð`);

export const kOperators = table(`
pm=± mp=∓ times=× div=÷ cdot=⋅ ast=∗ circ=∘ bullet=∙ oplus=⊕ ominus=⊖ otimes=⊗ oslash=⊘ odot=⊙ wedge=∧ land=∧
vee=∨ lor=∨ cap=∩ cup=∪ uplus=⊎ sqcap=⊓ sqcup=⊔ setminus=∖ smallsetminus=∖ wr=≀ amalg=⨿ leq=≤ le=≤ geq=≥ ge=≥ neq=≠ ne=≠
equiv=≡ sim=∼ simeq=≃ approx=≈ cong=≅ propto=∝ ll=≪ gg=≫ prec=≺ succ=≻ preceq=⪯ succeq=⪰ leqslant=⩽ geqslant=⩾
lesssim=≲ gtrsim=≳ doteq=≐ coloneqq=≔ triangleq=≜ asymp=≍ in=∈ notin=∉ ni=∋ subset=⊂ supset=⊃ subseteq=⊆
supseteq=⊇ subsetneq=⊊ supsetneq=⊋ sqsubseteq=⊑ sqsupseteq=⊒ mid=∣ nmid=∤ parallel=∥ nparallel=∦ perp=⊥ vdash=⊢
dashv=⊣ models=⊨ vDash=⊨ Vdash=⊩ to=→ rightarrow=→ leftarrow=← gets=← leftrightarrow=↔ Rightarrow=⇒ implies=⟹
Leftarrow=⇐ impliedby=⟸ Leftrightarrow=⇔ iff=⟺ longrightarrow=⟶ longleftarrow=⟵ Longrightarrow=⟹ Longleftarrow=⟸
longleftrightarrow=⟷ Longleftrightarrow=⟺ mapsto=↦ longmapsto=⟼ hookrightarrow=↪ hookleftarrow=↩ uparrow=↑ downarrow=↓
updownarrow=↕ Uparrow=⇑ Downarrow=⇓ nearrow=↗ searrow=↘ swarrow=↙ nwarrow=↖ rightharpoonup=⇀ rightleftharpoons=⇌
leadsto=⇝ rightsquigarrow=⇝ twoheadrightarrow=↠ therefore=∴ because=∵ colon=: vert=| Vert=‖ lt=< gt=> land=∧
backslash=\\ ltimes=⋉ rtimes=⋊ bowtie=⋈ trianglelefteq=⊴ triangleleft=◁ triangleright=▷ multimap=⊸ surd=√ slash=/`);

/** Operators that take limits, above and below where there is room. */
export const kBig = table(`
sum=∑ prod=∏ coprod=∐ bigcup=⋃ bigcap=⋂ bigvee=⋁ bigwedge=⋀ bigoplus=⨁ bigotimes=⨂ bigodot=⨀ biguplus=⨄ bigsqcup=⨆`);

export const kIntegrals = table('int=∫ iint=∬ iiint=∭ oint=∮ oiint=∯');

export const kDelimiters = table(`
(=( )=) [=[ ]=] {={ }=} |=‖ lbrace={ rbrace=} lbrack=[ rbrack=] langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ vert=|
Vert=‖ lvert=| rvert=| lVert=‖ rVert=‖ uparrow=↑ downarrow=↓ backslash=\\ lgroup=⟮ rgroup=⟯`);

export const kFunctions = new Set(`
sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp deg dim hom ker arg det gcd lcm Pr
sgn tr rank diag span softmax ReLU`.trim().split(/\s+/));

/** Functions whose subscript stands below. */
export const kLimits = new Map([...'lim max min sup inf det gcd Pr'.split(' ').map((name) => [name, name]),
  ['limsup', 'lim sup'], ['liminf', 'lim inf'], ['argmax', 'arg max'], ['argmin', 'arg min']]);

export const kAccents = table(`
hat=^ widehat=^ bar=¯ tilde=~ widetilde=~ vec=→ dot=˙ ddot=¨ dddot=⃛ check=ˇ breve=˘ acute=´ grave=\`
mathring=˚ overrightarrow=→ overleftarrow=← overleftrightarrow=↔ overbrace=⏞`);

export const kUnder = table('underbrace=⏟ underrightarrow=→');

/** Widths in em. */
export const kSpaces = new Map([[',', 0.1667], ['thinspace', 0.1667], [':', 0.2222], ['>', 0.2222], ['medspace', 0.2222],
  [';', 0.2778], ['thickspace', 0.2778], ['!', -0.1667], ['negthinspace', -0.1667], [' ', 0.25], ['\n', 0.25], ['~', 0.25],
  ['enspace', 0.5], ['quad', 1], ['qquad', 2]]);

// Alphabets of Unicode: the code points of A, a and 0, and the exceptions.
const kAlphabets = {
  mathbb: [0x1d538, 0x1d552, 0x1d7d8, {C: 'ℂ', H: 'ℍ', N: 'ℕ', P: 'ℙ', Q: 'ℚ', R: 'ℝ', Z: 'ℤ'}],
  mathcal: [0x1d49c, 0x1d4b6, 0, {B: 'ℬ', E: 'ℰ', F: 'ℱ', H: 'ℋ', I: 'ℐ', L: 'ℒ', M: 'ℳ', R: 'ℛ', e: 'ℯ', g: 'ℊ', o: 'ℴ'}],
  mathfrak: [0x1d504, 0x1d51e, 0, {C: 'ℭ', H: 'ℌ', I: 'ℑ', R: 'ℜ', Z: 'ℨ'}],
  mathbf: [0x1d400, 0x1d41a, 0x1d7ce, {}],
  boldsymbol: [0x1d468, 0x1d482, 0x1d7ce, {h: '𝒉'}],
  mathsf: [0x1d5a0, 0x1d5ba, 0x1d7e2, {}],
  mathtt: [0x1d670, 0x1d68a, 0x1d7f6, {}],
};
kAlphabets.mathscr = kAlphabets.mathcal;
kAlphabets.bm = kAlphabets.boldsymbol;
kAlphabets.mathbfit = kAlphabets.boldsymbol;
kAlphabets.textbf = kAlphabets.mathbf;

export function is_alphabet(name) {
  return Object.hasOwn(kAlphabets, name);
}

/** A character in another alphabet; Greek letters have a bold form. */
export function in_alphabet(name, c) {
  const [upper, lower, digit, others] = kAlphabets[name];
  if (Object.hasOwn(others, c)) return others[c];
  const code = c.codePointAt(0);
  const at = (base, from) => String.fromCodePoint(base + code - from);
  if (c >= 'A' && c <= 'Z') return at(upper, 65);
  if (c >= 'a' && c <= 'z') return at(lower, 97);
  if (digit && c >= '0' && c <= '9') return at(digit, 48);
  if (name === 'boldsymbol' || name === 'bm' || name === 'mathbf') {
    const slanted = name !== 'mathbf';
    if (code >= 0x391 && code <= 0x3a9) return at(slanted ? 0x1d71c : 0x1d6a8, 0x391);
    if (code >= 0x3b1 && code <= 0x3c9) return at(slanted ? 0x1d736 : 0x1d6c2, 0x3b1);
  }
  return c;
}
