"""Event n of the auction site as Spark SQL over `id` = n and `at` = its time in microseconds.

Of 50 events 1 is a new person, 3 are new auctions and 46 are bids. What looks random is a hash of
the event's number and a salt per field, so an event is the same whenever and wherever it is made.
Ids, hot sellers, bidders and auctions, prices and channels follow the Nexmark generator.
"""

from __future__ import annotations

PERSONS, AUCTIONS, EVENTS = 1, 3, 50
# Events until 100 more auctions have begun: auctions are open for about that long.
EVENTS_PER_AUCTION_LIFE = 100 * EVENTS // AUCTIONS

_FIRST_ID = 1000
_FIRST_NAMES = [
    "Peter",
    "Paul",
    "Luke",
    "John",
    "Saul",
    "Vicky",
    "Kate",
    "Julie",
    "Sarah",
    "Deiter",
    "Walter",
]
_LAST_NAMES = [
    "Shultz",
    "Abrams",
    "Spencer",
    "White",
    "Bartels",
    "Walton",
    "Smith",
    "Jones",
    "Noris",
]
_CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_URLS = [
    f"https://nexmark.example/{path}/item.htm?query=1"
    for path in ("abo/eoci/cidro", "eoax/oad/cidro", "abo/jack/cidro", "abo/micah/cidro")
]


def base_columns(at_us: str) -> list[str]:
    """Return SQL over `id` for what the three structs are made of; `at_us` is the event's time.

    Three hashes serve all fields, by their bits: an event is of one kind only, and the less code
    there is, the better it is compiled.
    """
    return [
        f"CAST(id % {EVENTS} AS INT) AS place",
        f"{at_us} AS at",
        f"id div {EVENTS} AS person_no",
        # In the first event, before any auction, 0.
        f"greatest(0L, (id div {EVENTS}) * {AUCTIONS}"
        f" + least(id % {EVENTS} - {PERSONS}, {AUCTIONS} - 1)) AS auction_no",
        "xxhash64(id, 1) AS h1",
        "xxhash64(id, 2) AS h2",
        "xxhash64(id, 3) AS h3",
    ]


IS_PERSON = f"place < {PERSONS}"
IS_AUCTION = f"place >= {PERSONS} AND place < {PERSONS + AUCTIONS}"
IS_BID = f"place >= {PERSONS + AUCTIONS}"


def person() -> str:
    """Return SQL for the struct of a person."""
    first, last = _choice(_FIRST_NAMES, "h1", 0), _choice(_LAST_NAMES, "h1", 8)
    return _struct(
        id=f"person_no + {_FIRST_ID}",
        name=f"concat({first}, ' ', {last})",
        email_address="concat(left(hex(h1), 7), '@', left(hex(h2), 5), '.example')",
        credit_card="translate(left(hex(h2), 16), 'ABCDEF', '012345')",
        city=_choice(_CITIES, "h1", 16),
        state=_choice(_STATES, "h1", 24),
        datetime="timestamp_micros(at)",
        extra="repeat(hex(h3), 7)",
    )


def auction(life_us: int) -> str:
    """Return SQL for the struct of an auction that is open for `life_us` on average."""
    return _struct(
        id=f"auction_no + {_FIRST_ID}",
        description="repeat(hex(h1), 3)",
        item_name="hex(h2)",
        initial_bid=_price("h2"),
        reserve=f"{_price('h2')} + {_price('h3')}",
        datetime="timestamp_micros(at)",
        expires=f"timestamp_micros(at + 1 + {_bits('h1', 20)} % {max(1, 2 * life_us)})",
        seller=_hot_or_any_person(),
        category=f"10 + {_bits('h3', 8)} % 5",
        extra="repeat(hex(h3), 19)",
    )


def bid() -> str:
    """Return SQL for the struct of a bid."""
    hot_auction = "(auction_no div 100) * 100"
    # One of the last 100 auctions, or one of the next 10.
    any_auction = (
        f"auction_no - least(auction_no, 100L) + {_bits('h1', 16)} % (least(auction_no, 100L) + 11)"
    )
    is_hot = f"{_bits('h3', 0)} % 2 > 0"
    number = f"({_bits('h3', 4)} % 10000)"
    url = (
        f"concat('https://nexmark.example/', hex({number} * 7919), '/item.htm?query=1&channel_id=',"
        f" {number})"
    )
    return _struct(
        auction=f"IF({_bits('h1', 0)} % 2 > 0, {hot_auction}, {any_auction}) + {_FIRST_ID}",
        bidder=_hot_or_any_person(),
        price=_price("h2"),
        channel=f"IF({is_hot}, {_choice(_CHANNELS, 'h3', 2)}, concat('channel-', {number}))",
        url=f"IF({is_hot}, {_choice(_URLS, 'h3', 2)}, {url})",
        datetime="timestamp_micros(at)",
        extra="hex(h1)",
    )


def _struct(**fields: str) -> str:
    return "named_struct(" + ", ".join(f"'{name}', {sql}" for name, sql in fields.items()) + ")"


def _bits(hashed: str, skip: int) -> str:
    """A number of the hash's bits above the first `skip`, never negative."""
    return f"shiftrightunsigned({hashed}, {max(1, skip)})"


def _price(hashed: str) -> str:
    """100 times 10 to the power of [0, 6), as the generator has it."""
    return f"CAST(power(10D, {_bits(hashed, 11)} * {6 / 2**53!r}D) * 100D AS BIGINT)"


def _hot_or_any_person() -> str:
    # Three of four times the first of the last 100 persons, else one of the last 1000.
    anyone = (
        f"person_no - least(person_no, 1000L) + {_bits('h1', 32)} % (least(person_no, 1000L) + 10)"
    )
    return f"IF({_bits('h1', 8)} % 4 > 0, (person_no div 100) * 100, {anyone}) + {_FIRST_ID}"


def _choice(values: list[str], hashed: str, skip: int) -> str:
    items = ", ".join(f"'{value}'" for value in values)
    return f"element_at(array({items}), CAST({_bits(hashed, skip)} % {len(values)} AS INT) + 1)"
