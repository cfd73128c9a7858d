"""Strings for tests of tokenizers: sentences in many scripts, and strings that pre-tokenizers split differently."""
import random
import tempfile
from pathlib import Path

_folder = tempfile.TemporaryDirectory(prefix="weft-")


def scratch(name):
    """The path of a file that lives as long as the program."""
    return Path(_folder.name) / name


# A sentence a language; they are also what the small vocabularies are trained with.
SENTENCES = [
    "All human beings are born free and equal in dignity and rights, she said; we'll see, they're here and it's 12:30.",
    "Alle Menschen sind frei und gleich an Würde geboren, größer als zuvor: Straße, Öl, Übung, süß.",
    "Tous les êtres humains naissent libres et égaux, n'est-ce pas ? L'œuvre où naît l'été déjà coûte 3 €.",
    "Todos los seres humanos nacen libres; ¿cuántos años tiene el niño? ¡Qué mañana!",
    "Všichni lidé rodí se svobodní; příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.",
    "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar; İstanbul'da ışık.",
    "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.",
    "Բոլոր մարդիկ ծնվում են ազատ ու հավասար։",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق، أليس كذلك؟ ٣٤٥ كتاب.",
    "تمام انسان آزاد اور حقوق کے اعتبار سے برابر پیدا ہوئے ہیں۔",
    "सभी मनुष्य जन्म से स्वतन्त्र और समान हैं। १२३ रुपये।",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা নিয়ে জন্মগ্রহণ করে।",
    "மனிதர்கள் அனைவரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "మనుష్యులందరూ స్వేచ్ఛగా పుట్టారు.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน ๔๕๖ บาท",
    "មនុស្សទាំងអស់កើតមកមានសេរីភាព។",
    "လူတိုင်းသည် လွတ်လပ်စွာ မွေးဖွားလာသည်။",
    "人人生而自由，在尊严和权利上一律平等。他说：“你好！”",
    "すべての人間は、生まれながらにして自由であり、カタカナとひらがな、ｶﾞｷﾞｸﾞ、１２３。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "ᠬᠦᠮᠦᠨ ᠪᠦᠷ ᠲᠥᠷᠥᠵᠦ ᠮᠡᠨᠳᠡᠯᠡᠬᠦ",
    "ሰው ሁሉ ነጻና እኩል ሆኖ ተወልዷል።",
    "def f(x):\n    if x >= 10_000 and not x%7 != 0:\n\treturn {'a': [1,2,3], \"b\": 0x1F}  # done\n\n\nclass A(B): pass\n",
    "#include <vector>\r\nint main() { std::vector<int> v{1, 22, 333, 4444}; return v[0]->x++ && !y; }\r\n",
    "SELECT * FROM users WHERE id=42 AND name LIKE '%o''brien%'; -- https://example.com/a?b=c&d=e#f",
    "<p class=\"x\">&amp;</p> $\\frac{a}{b}$ ~/.bashrc C:\\Users\\me a@b.org +49-170 (0)1234 1,234,567.89",
]

# Strings that pre-tokenizers split differently: numbers, white space, apostrophes, marks, emoji, compatibility
# characters.
ODD = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n \n ", "a", " a", "a ", "  a  b  ", "\t\ta\n\n b \r\n c",
    "0", "12", "123", "1234", "1234567", "12345678", "1 22 333 4444 55555", "½ ² ③ Ⅷ x²+y³=1½", "1234.5678e-10", "12ab345cd6789",
    "123½456 ½1234 1234½ 7½8", "١٢٣٤٥ १२३४५६ 𝟏𝟐𝟑𝟒", "1\u20e3 12\ufe0f3 1234a 1234_ 1234- 123456.", "3.14,15;9:26",
    "I'm you're WE'LL they'VE he'd it's 'tis O'Neil’s ’s 'S 'ſ 'K", "don't.can't!won't?", "''''s ''ve",
    "camelCaseWord HTTPServer XMLHttpRequest iPhone ǅungla ʰa aʰ ªº", "ÀÉÎõü àéîÕÜ ĲĳǄǅǆ ßẞ",
    "e\u0301 a\u0308b n\u0303\u0323 \u0301 \u0301\u0302x क्षि ำ", "🙂 🙂🙂 👩‍🚀 👨‍👩‍👧‍👦 🇩🇪🇫🇷 ❤️ 👍🏽 1️⃣ #️⃣",
    "…——–-“„”‘’«»¿¡§¶†‡•‰′″※", "!!! ??? ... ,,, ;;; ::: --- ___ *** ### $$$ %%% ^^^ &&& === +++ ~~~ ``` |||",
    "a/b/c //x /* y */ a\\b\\n .\n!\n\n?\r\n/ /\n", "x=1;y=2\n\nz", "foo_bar __init__ a_1 _2", "!a\"b#c$d%e&f(g)h*i+j,k-l.m/n",
    "\u00a0a\u00a0\u00a0b\u3000c\u2003\u2009d\u200be\u180ef\u2028g\u2029h\u0085i\ufeffj\u202fk", "a\x0bb\x0cc\x1cd\x7fe\x01f",
    "中文english混合text日本語テキスト한글mixed", "ａｂｃ１２３ＡＢＣ！？ ㌔㍍ ㎏ ﬁﬂ ﷺ Å Ω ℌ", "한국어 ㄱㄴㄷ ㅏㅑ 각힣 ᄀᄁᆨ", "ㄅㄆㄇ ㄪㄬ 〇一二三 〡〢〣 々〆〄",
    "<|im_start|>user\n<s>[INST] </s> <0x0A> <unk> ▁ ▁a a▁▁b", "\ufffd\ufffe \ue000 \U0010ffff \U000e0041",
    "a" * 70, "ab" * 40 + " " * 40 + "c", "9" * 40, "\n" * 20 + " " * 20 + "\t" * 5 + "x", "!" * 33, "é" * 30, "的" * 30, "🦙" * 12,
]


def random_bytes(seed: int, count: int) -> list[str]:
    """Texts of random bytes, as UTF-8 in which each invalid part is U+FFFD."""
    source = random.Random(seed)
    return [source.randbytes(source.randint(1, 24)).decode("utf-8", "replace").replace("\0", "") for _ in range(count)]


ALPHABET = list("aaeiotnsrhldAEMTB  \n\t\r.,;:!?'\"-_/\\()[]{}<>=+*&%$#@^~|`0123456789") + [
    "  ", "   ", "\r\n", "\n\n", " \n", "'s", "'re", "'LL", "’s", "the", "ing", " a", "ä", "É", "ß", "ñ", "ſ", "İ", "ǅ", "ʰ", "ª", "я", "Б",
    "ё", "λ", "Σ", "ς", "ա", "ა", "א", "ع", "ً", "٣", "۴", "क", "्", "ि", "५", "ক", "া", "த", "ை", "ก", "ำ", "๕", "ន", "់", "လ", "ွ", "中", "文", "龥",
    "㐀", "𠀀", "あ", "ア", "ｶ", "ﾞ", "ー", "々", "한", "ᄀ", "ㅏ", "ㄅ", "ሀ", "ᠬ", "½", "²", "①", "Ⅷ", "𝟗", "１", "Ａ", "\u00a0", "\u3000", "\u2003",
    "\u200b", "\u200d", "\ufeff", "\u180e", "\u2028", "\u0085", "\u0301", "\u0308", "\u20e3", "\ufe0f", "🙂", "👍🏽", "🇩🇪", "€", "$", "…", "“", "”", "—", "。", "，", "！",
    "、", "۔", "،", "।", "\ufffd", "\ue000", "ﬁ", "Å", "Ω", "▁",
]


def random_text(source: random.Random) -> str:
    """A string of characters that tokenizers treat differently, now and then any character at all."""
    parts = []
    for _ in range(source.randint(1, 24)):
        if source.random() < 0.9:
            parts += [source.choice(ALPHABET)] * (source.randint(2, 6) if source.random() < 0.1 else 1)
            continue
        code = source.randrange(1, 0x3000 if source.random() < 0.5 else 0x110000)
        if not 0xD800 <= code < 0xE000:
            parts.append(chr(code))
    return "".join(parts)
