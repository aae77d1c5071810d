"""A wiki that is only read: pages, their revisions and texts, categories, links. Eleven digests.

Titles have letters that collations sort differently (`ß`, `Æ`), and the tables name no collation: each server has its
own default, as in a dump of MySQL 5.7.
"""

import random
from collections.abc import Iterator

CATEGORIES, EDITORS = 200, 300
KINDS = ("Aerial", "Ærø", "Élan", "Grand", "Grosse", "Große", "Naïve", "Northern", "Old", "Öland", "Zürich", "Žilina")
THINGS = ("bridge", "canal", "church", "harbour", "lighthouse", "mill", "observatory", "railway", "river", "tower")
STUFFS = ("brick", "copper", "corn", "forest", "glass", "granite", "iron", "paper", "salt", "sand", "stone", "water")
WORDS = tuple(stuff + thing for stuff in STUFFS for thing in THINGS)
SCHEMA = """\
CREATE TABLE page (
  id INT PRIMARY KEY, title VARCHAR(80) NOT NULL, newest_id INT NOT NULL, UNIQUE KEY (title), UNIQUE KEY (newest_id)
) ENGINE=InnoDB CHARSET=utf8mb4;
CREATE TABLE revision (
  id INT PRIMARY KEY, page_id INT NOT NULL, editor VARCHAR(40) NOT NULL, made DATETIME NOT NULL,
  remark VARCHAR(80) NOT NULL, KEY by_page (page_id, made), KEY by_time (made), KEY by_editor (editor, made)
) ENGINE=InnoDB CHARSET=utf8mb4;
CREATE TABLE body (
  revision_id INT PRIMARY KEY, content MEDIUMTEXT NOT NULL, FULLTEXT KEY (content)
) ENGINE=InnoDB CHARSET=utf8mb4;
CREATE TABLE category (id INT PRIMARY KEY, name VARCHAR(80) NOT NULL) ENGINE=InnoDB CHARSET=utf8mb4;
CREATE TABLE page_category (
  page_id INT NOT NULL, category_id INT NOT NULL, PRIMARY KEY (page_id, category_id), KEY by_category (category_id)
) ENGINE=InnoDB CHARSET=utf8mb4;
CREATE TABLE link (
  source_id INT NOT NULL, target_id INT NOT NULL, PRIMARY KEY (source_id, target_id), KEY by_target (target_id)
) ENGINE=InnoDB CHARSET=utf8mb4;
"""
# How often each is a visit.
VISITS = (
    (
        40,
        "SELECT p.id, p.title, r.made, r.editor, b.content FROM page p JOIN revision r ON r.id = p.newest_id "
        "JOIN body b ON b.revision_id = r.id WHERE p.title = '{title}'",
        "SELECT c.id, c.name FROM page_category pc JOIN category c ON c.id = pc.category_id "
        "WHERE pc.page_id = {page} ORDER BY c.id",
    ),
    (10, "SELECT id, editor, made, remark FROM revision WHERE page_id = {page} ORDER BY made DESC, id DESC LIMIT 20"),
    (
        8,
        "SELECT p.id, p.title FROM page_category pc JOIN page p ON p.id = pc.page_id "
        "WHERE pc.category_id = {category} ORDER BY p.title LIMIT 50",
        "SELECT p.id, p.title FROM page_category pc JOIN page p ON p.id = pc.page_id "
        "WHERE pc.category_id = {category} AND p.title > '{title}' ORDER BY p.title LIMIT 50",
    ),
    (
        8,
        "SELECT p.id, p.title FROM link l JOIN page p ON p.id = l.source_id WHERE l.target_id = {page} "
        "ORDER BY p.id LIMIT 50",
    ),
    (10, "SELECT id, title FROM page WHERE title LIKE '{kind} {start}%' ORDER BY title LIMIT 10"),
    (
        4,
        "SELECT r.id, r.made, r.editor, p.title FROM revision r JOIN page p ON p.id = r.page_id "
        "WHERE r.made < '{day}' ORDER BY r.made DESC, r.id DESC LIMIT 50",
    ),
    (3, "SELECT id, page_id, made FROM revision WHERE editor = 'editor{editor}' ORDER BY made DESC, id DESC LIMIT 50"),
    (
        1,
        "SELECT p.id, p.title FROM body b JOIN page p ON p.newest_id = b.revision_id "
        "WHERE MATCH (b.content) AGAINST ('+{word} +{other}' IN BOOLEAN MODE) ORDER BY p.id LIMIT 20",
    ),
    (
        1,
        "SELECT l.target_id, COUNT(*) AS links FROM page_category pc JOIN link l ON l.target_id = pc.page_id "
        "WHERE pc.category_id = {category} GROUP BY l.target_id ORDER BY links DESC, l.target_id LIMIT 20",
    ),
)


def title(page: int) -> str:
    """The same for the same page, and unique in every collation by its number."""
    return f"{KINDS[page * 7 % len(KINDS)]} {THINGS[page * 3 % len(THINGS)]} {page}"


def tables(chance: random.Random, rows: int) -> Iterator[tuple[str, list[str]]]:
    """Each table's name and rows: so many pages, each with two revisions, two categories and five links."""
    revisions = range(1, 2 * rows + 1)  # the newest of page 7 is 14
    yield "page", [f"({i},'{title(i)}',{2 * i})" for i in range(1, rows + 1)]
    yield "revision", [
        f"({i},{(i + 1) // 2},'editor{chance.randint(1, EDITORS)}',"
        f"'2026-{chance.randint(1, 5) + (0 if i % 2 else 5):02d}-{chance.randint(1, 28):02d} "
        f"{chance.randint(0, 23):02d}:{chance.randint(0, 59):02d}:00','{chance.choice(WORDS)}')"
        for i in revisions
    ]  # fmt: skip
    yield "body", [f"({i},'{' '.join(chance.choices(WORDS, k=chance.randint(8, 24)))}.')" for i in revisions]
    yield "category", [f"({i},'{title(i)}')" for i in range(1, CATEGORIES + 1)]
    for table, others, count in (("page_category", CATEGORIES, 2), ("link", rows, 5)):
        pairs = [(page, other) for page in range(1, rows + 1) for other in chance.sample(range(1, others + 1), count)]
        yield table, [f"({page},{other})" for page, other in pairs]


def values(chance: random.Random, rows: int) -> dict[str, object]:
    """What one visit asks for; few pages are read often."""
    page = 1 + int(rows * chance.random() ** 3)
    word, other = chance.sample(WORDS, 2)
    return {
        "page": page, "title": title(page), "category": chance.randint(1, CATEGORIES),
        "kind": chance.choice(KINDS), "start": chance.choice(THINGS)[:2], "editor": chance.randint(1, EDITORS),
        "day": f"2026-{chance.randint(2, 10):02d}-{chance.randint(1, 28):02d}", "word": word, "other": other,
    }  # fmt: skip
