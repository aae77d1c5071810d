//! What texts are made of. A text's content decides only its characters, never how they are encoded.
//!
//! No alphabet holds a quote, a backslash or a blank at which a server would trim, so a text can stand in an SQL literal as it is.

/// 80 characters of ASCII: letters, digits and signs.
pub(super) const ASCII: &str =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&()*+,-./:;<=>[";

/// Letters of French, German, Spanish and the Nordic languages, all in ISO 8859-1.
pub(super) const LATIN: &str =
    "abcdefghijklmnopqrstuvwxyzàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßABCDEFGHÀÄÉÈÖÜØÇ";

/// The Russian alphabet without ё, which the older Cyrillic character sets put elsewhere.
pub(super) const CYRILLIC: &str =
    "абвгдежзийклмнопрстуфхцчшщъыьэюяАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ";

/// Hiragana, katakana and everyday kanji, all in JIS X 0208.
pub(super) const JAPANESE: &str = "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをん\
がぎぐげござじずぜぞだでどばびぶべぼぱぴぷぺぽ\
アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン\
日本語東京都人大学生時間国会社年月火水木金土山川田中上下左右前後今朝昼夜春夏秋冬一二三四五六七八九十百千万円車電話店食飲見聞読書言行来出入手足目口耳";

/// Everyday simplified Chinese, all in GB 2312.
pub(super) const CHINESE: &str = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从";

/// Common English words, the commonest first.
pub(super) const WORDS: &[&str] = &[
    "the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "as", "was", "with", "be",
    "by", "on", "not", "he", "his", "but", "at", "are", "this", "have", "from", "or", "had", "an",
    "they", "which", "one", "you", "were", "her", "all", "she", "there", "would", "their", "we",
    "him", "been", "has", "when", "who", "will", "more", "no", "if", "out", "so", "said", "what",
    "up", "its", "about", "into", "than", "them", "can", "only", "other", "new", "some", "could",
    "time", "these", "two", "may", "then", "do", "first", "any", "my", "now", "such", "like",
    "our", "over", "man", "me", "even", "most", "made", "after", "also", "did", "many", "before",
    "must", "through", "years", "where", "much", "your", "way", "well", "down", "should",
    "because", "each", "just", "those", "people", "how", "too", "little", "state", "good", "very",
    "make", "world", "still", "own", "see", "men", "work", "long", "get", "here", "between",
    "both", "life", "being", "under", "never", "day", "same", "another", "know", "while", "last",
    "might", "us", "great", "old", "year", "off", "come", "since", "against", "go", "came",
    "right", "used", "take", "three", "himself", "few", "pool", "use", "during", "without",
    "again", "place", "around", "however", "home", "small", "found", "thought", "went", "say",
    "part", "once", "general", "high", "upon", "school", "every", "number", "always", "system",
    "order", "water", "public", "night", "country", "point", "question", "business", "customer",
    "delivery", "account", "manager", "address", "garden", "station", "library", "kitchen",
    "language", "mountain", "weather", "history", "science", "music", "picture", "morning",
    "evening", "window", "paper", "letter", "market", "river", "bridge", "street", "village",
];

/// The 80 faces of Unicode's block "Emoticons": four bytes each in UTF-8.
pub(super) const EMOJI: std::ops::RangeInclusive<char> = '\u{1F600}'..='\u{1F64F}';
