// The first letter of a paragraph decides its direction: rules P2 and P3 of Unicode's bidirectional algorithm.

const kRightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const kLetter = /\p{L}/u;

/** 'rtl', 'ltr', or null for a text without letters. */
export function direction_of(text) {
  const letter = kLetter.exec(text)?.[0];
  return letter === undefined ? null : kRightToLeft.test(letter) ? 'rtl' : 'ltr';
}
