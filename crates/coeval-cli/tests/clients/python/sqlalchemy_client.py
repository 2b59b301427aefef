# SPDX-License-Identifier: Apache-2.0
"""SQLAlchemy 2: Core, ORM and reflection, over psycopg 3 and asyncpg."""

import datetime as dt
import enum
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy import exc, func, orm, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from checks import ADDRESS, expect, raises, run

URL = "postgresql+{driver}://{user}@{host}:{port}/{database}"


def engine(**options):
    return sa.create_engine(URL.format(driver="psycopg", **ADDRESS), **options)


class Base(orm.DeclarativeBase):
    pass


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Author(Base):
    __tablename__ = "authors"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(60), unique=True)
    born: orm.Mapped[dt.date | None]
    level: orm.Mapped[Level] = orm.mapped_column(sa.Enum(Level, native_enum=False), default=Level.LOW)
    made: orm.Mapped[dt.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=func.now())
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "books"
    __table_args__ = (sa.CheckConstraint("price >= 0", name="price_is_positive"), sa.Index("books_title", "title", "author_id"))
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("authors.id", ondelete="CASCADE", name="books_author"))
    title: orm.Mapped[str]
    price: orm.Mapped[Decimal] = orm.mapped_column(sa.Numeric(10, 2), server_default="0")
    version: orm.Mapped[int] = orm.mapped_column(default=1)
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")
    __mapper_args__ = {"version_id_col": version}


def mapped_objects(_conninfo):
    source = engine()
    Base.metadata.create_all(source)
    Base.metadata.create_all(source)
    with orm.Session(source) as session:
        ann = Author(name="Ann", born=dt.date(1970, 1, 2), level=Level.HIGH)
        ann.books = [Book(title=f"Volume {number}", price=Decimal(number) / 2) for number in range(1, 41)]
        session.add_all([ann, Author(name="Bob", books=[Book(title="Only one")])])
        session.commit()
        expect((ann.id, ann.made.tzinfo is not None, len({book.id for book in ann.books})), (1, True, 40))
    with orm.Session(source) as session:
        found = session.scalars(select(Author).options(orm.selectinload(Author.books)).order_by(Author.name)).all()
        expect([(a.name, a.born, a.level, len(a.books)) for a in found],
               [("Ann", dt.date(1970, 1, 2), Level.HIGH, 40), ("Bob", None, Level.LOW, 1)])
        joined = session.scalars(select(Author).options(orm.joinedload(Author.books)).where(Author.name.like("A%"))).unique().one()
        expect(sum(book.price for book in joined.books), Decimal("410.00"))
        totals = session.execute(
            select(Author.name, func.count(Book.id), func.sum(Book.price), func.max(Book.title))
            .join(Author.books).group_by(Author.name).having(func.count(Book.id) > 0).order_by(Author.name)
        ).all()
        expect(totals, [("Ann", 40, Decimal("410.00"), "Volume 9"), ("Bob", 1, Decimal("0.00"), "Only one")])
        expect(session.scalar(select(func.count()).select_from(Book).where(Book.author.has(Author.name == "Bob"))), 1)
        expect(session.scalars(select(Author.name).where(Author.books.any(Book.price > 19)).order_by(Author.name)).all(), ["Ann"])
        some = session.scalars(select(Book).where(Book.title.in_(["Volume 1", "Volume 2"])).order_by(Book.title)).all()
        some[0].title = "First volume"
        session.delete(some[1])
        session.commit()
        expect(some[0].version, 2)
        page = session.scalars(select(Book.title).order_by(Book.price.desc(), Book.id).limit(2).offset(1)).all()
        expect(page, ["Volume 39", "Volume 38"])
    with orm.Session(source) as session:
        session.add(Author(name="Ann"))
        with raises(exc.IntegrityError):
            session.flush()
        session.rollback()
        with raises(exc.IntegrityError), session.begin_nested():
            session.add(Book(title="no author", author_id=999))
            session.flush()
        session.delete(session.scalars(select(Author).where(Author.name == "Ann")).one())
        session.commit()
        expect(session.scalar(select(func.count(Book.id))), 1)
    with orm.Session(source) as one, orm.Session(source) as two:
        first, second = one.scalars(select(Book)).one(), two.scalars(select(Book)).one()
        first.price = Decimal(3)
        one.commit()
        second.price = Decimal(4)
        with raises((orm.exc.StaleDataError, exc.OperationalError)):
            two.commit()
    Base.metadata.drop_all(source)
    expect(sa.inspect(source).get_table_names(), [])
    source.dispose()


def core(_conninfo):
    source = engine()
    metadata = sa.MetaData()
    stock = sa.Table(
        "stock", metadata, sa.Column("sku", sa.String(10), primary_key=True), sa.Column("site", sa.Integer, primary_key=True),
        sa.Column("amount", sa.Integer, nullable=False, server_default="0"), sa.Column("note", sa.Text),
    )
    metadata.create_all(source)
    with source.begin() as conn:
        rows = [{"sku": f"s{number:04}", "site": number % 3, "amount": number} for number in range(2500)]
        conn.execute(stock.insert(), rows)
        expect(conn.execute(select(func.count(), func.sum(stock.c.amount))).one(), (2500, 3123750))
        back = conn.execute(stock.insert().returning(stock.c.sku, stock.c.amount), [{"sku": "x", "site": 1}, {"sku": "y", "site": 1}])
        expect(sorted(back.all()), [("x", 0), ("y", 0)])
        more = postgresql.insert(stock).values([{"sku": "x", "site": 1, "amount": 5}, {"sku": "z", "site": 1, "amount": 6}])
        more = more.on_conflict_do_update(index_elements=[stock.c.sku, stock.c.site], set_={"amount": stock.c.amount + more.excluded.amount})
        expect(sorted(conn.execute(more.returning(stock.c.sku, stock.c.amount)).all()), [("x", 5), ("z", 6)])
        same = postgresql.insert(stock).values(sku="x", site=1).on_conflict_do_nothing()
        expect(conn.execute(same.returning(stock.c.sku)).all(), [])
    with source.connect() as conn:
        expect(conn.execute(select(stock.c.amount).where(stock.c.sku.in_(["x", "z"])).order_by(stock.c.sku)).scalars().all(), [5, 6])
        per_site = select(stock.c.site, func.sum(stock.c.amount).label("total")).group_by(stock.c.site).cte("per_site")
        best = select(per_site.c.site).where(per_site.c.total == select(func.max(per_site.c.total)).scalar_subquery())
        expect(conn.execute(best).scalars().all(), [0])
        ranked = select(stock.c.sku, func.row_number().over(partition_by=stock.c.site, order_by=stock.c.amount.desc()).label("n")).subquery()
        expect(conn.execute(select(ranked.c.sku).where(ranked.c.n == 1).order_by(ranked.c.sku)).scalars().all(), ["s2497", "s2498", "s2499"])
        expect(conn.execute(sa.text("SELECT note FROM stock WHERE sku = :sku"), {"sku": "x"}).one(), (None,))
        both = sa.union_all(select(sa.literal(1).label("n")), select(sa.literal(2))).subquery()
        expect(conn.execute(select(func.sum(both.c.n))).scalar(), 3)
        expect(conn.execute(select(sa.cast(sa.literal("12"), sa.Integer) + 1, sa.case((stock.c.amount > 5, "many"), else_="few")).where(stock.c.sku == "z")).one(), (13, "many"))
        conn.rollback()
        with conn.begin():
            expect(conn.execute(stock.update().where(stock.c.site == 1).values(note="here")).rowcount > 800, True)
            expect(conn.execute(stock.delete().where(stock.c.note.is_(None))).rowcount > 1600, True)
        streamed = conn.execution_options(stream_results=True, yield_per=100).execute(select(stock.c.sku).order_by(stock.c.sku))
        expect(len([row for part in streamed.partitions() for row in part]), 836)
    with engine(isolation_level="AUTOCOMMIT").connect() as conn:
        conn.execute(sa.text("VACUUM"))
        expect(conn.execute(sa.text("SELECT 1")).scalar(), 1)
    for level in ("READ COMMITTED", "REPEATABLE READ"):
        with engine(isolation_level=level).connect() as conn:
            expect(conn.get_isolation_level(), level)
    metadata.drop_all(source)
    source.dispose()


def array_columns(_conninfo):
    source = engine()
    metadata = sa.MetaData()
    tagged = sa.Table(
        "tagged", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("tags", postgresql.ARRAY(sa.String(20)), server_default="{}"),
        sa.Column("marks", postgresql.ARRAY(sa.Integer)),
    )
    metadata.create_all(source)
    with source.begin() as conn:
        conn.execute(tagged.insert(), [{"id": 1, "tags": ["a", "b"], "marks": [1, None]}, {"id": 2, "tags": [], "marks": None}])
        conn.execute(tagged.insert().values(id=3))
        expect(conn.execute(select(tagged).order_by(tagged.c.id)).all(), [(1, ["a", "b"], [1, None]), (2, [], None), (3, [], None)])
        for condition in (tagged.c.tags.contains(["a"]), tagged.c.tags.overlap(["b", "z"]), tagged.c.tags.any("a"), tagged.c.marks[1] == 1):
            expect(conn.execute(select(tagged.c.id).where(condition)).scalars().all(), [1])
        conn.execute(tagged.update().where(tagged.c.id == 2).values(tags=tagged.c.tags + ["c"], marks=[7]))
        expect(conn.execute(select(tagged).where(tagged.c.id == 2)).one(), (2, ["c"], [7]))
    shown = {column["name"]: repr(column["type"]) for column in sa.inspect(source).get_columns("tagged")}
    expect(shown, {"id": "INTEGER()", "tags": "ARRAY(VARCHAR(length=20))", "marks": "ARRAY(INTEGER())"})
    metadata.drop_all(source)
    source.dispose()


SHAPE = """
CREATE SCHEMA shop;
CREATE TABLE customers (
    id serial PRIMARY KEY, name varchar(40) NOT NULL, mail text CONSTRAINT one_mail UNIQUE, score numeric(8,2) DEFAULT 1.5,
    since timestamp with time zone, kind char(3), flag boolean DEFAULT false, raw bytea, key uuid, doc json, wide double precision,
    small smallint, day date, at time, local timestamp, CONSTRAINT small_is_positive CHECK (small > 0));
CREATE TABLE shop.orders (
    id bigint GENERATED ALWAYS AS IDENTITY, line int, customer int NOT NULL, note text,
    CONSTRAINT orders_key PRIMARY KEY (id, line),
    CONSTRAINT orders_customer FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE ON UPDATE SET NULL);
CREATE INDEX orders_note ON shop.orders (note, customer);
CREATE UNIQUE INDEX customers_key ON customers (key);
CREATE VIEW named AS SELECT id, name FROM customers;
CREATE SEQUENCE tickets;
"""


def enums(_conninfo):
    class Color(enum.Enum):
        RED = 1
        GREEN = 2
        BLUE = 3

    metadata = sa.MetaData()
    shirts = sa.Table(
        "shirts",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("color", sa.Enum(Color), nullable=False, server_default="GREEN"),
        sa.Column("size", sa.Enum("S", "M", "L", name="shirt_size")),
    )
    source = engine()
    metadata.create_all(source)
    metadata.create_all(source)
    with source.begin() as conn:
        rows = [{"id": 1, "color": Color.BLUE, "size": "S"}, {"id": 2, "color": Color.RED, "size": "L"}]
        conn.execute(shirts.insert(), rows)
        conn.execute(shirts.insert().values(id=3))
        found = conn.execute(select(shirts).order_by(shirts.c.color)).all()
        expect(found, [(2, Color.RED, "L"), (3, Color.GREEN, None), (1, Color.BLUE, "S")])
        expect(conn.scalars(select(shirts.c.id).where(shirts.c.color == Color.BLUE)).all(), [1])
        bright = shirts.c.color.in_([Color.RED, Color.BLUE])
        expect(conn.scalars(select(shirts.c.id).where(bright).order_by(shirts.c.id)).all(), [1, 2])
        conn.execute(shirts.update().where(shirts.c.size == "L").values(size="M"))
        expect(conn.scalar(select(func.max(shirts.c.size))), "M")
    inspector = sa.inspect(source)
    named = [(known["name"], known["labels"]) for known in inspector.get_enums()]
    expect(named, [("color", ["RED", "GREEN", "BLUE"]), ("shirt_size", ["S", "M", "L"])])
    columns = inspector.get_columns("shirts")
    expect((columns[1]["type"].name, columns[1]["type"].enums), ("color", ["RED", "GREEN", "BLUE"]))
    expect(columns[1]["default"], "'GREEN'::color")
    metadata.drop_all(source)
    expect(sa.inspect(source).get_enums(), [])
    source.dispose()


def reflection(_conninfo):
    source = engine()
    with source.begin() as conn:
        for statement in SHAPE.split(";\n")[:-1]:
            conn.execute(sa.text(statement))
    look = sa.inspect(source)
    expect(look.default_schema_name, "public")
    with source.connect() as conn:
        here = conn.execute(sa.text("SELECT table_catalog FROM information_schema.tables WHERE table_name = 'customers'"))
        expect((here.scalar(), conn.execute(sa.text("SELECT current_database()")).scalar()), (ADDRESS["database"],) * 2)
    expect(sorted(look.get_schema_names()), ["information_schema", "public", "shop"])
    expect((look.get_table_names(), look.get_table_names("shop"), look.get_view_names()), (["customers"], ["orders"], ["named"]))
    expect(sorted(look.get_sequence_names()), ["customers_id_seq", "tickets"])
    expect((look.has_table("customers"), look.has_table("orders"), look.has_table("orders", "shop")), (True, False, True))
    expect((look.has_sequence("tickets"), look.has_index("customers", "customers_key")), (True, True))
    shown = {column["name"]: (repr(column["type"]), column["nullable"], column["default"]) for column in look.get_columns("customers")}
    expect(shown, {
        "id": ("INTEGER()", False, "nextval('customers_id_seq'::regclass)"),
        "name": ("VARCHAR(length=40)", False, None),
        "mail": ("TEXT()", True, None),
        "score": ("NUMERIC(precision=8, scale=2)", True, "1.5"),
        "since": ("TIMESTAMP(timezone=True)", True, None),
        "kind": ("CHAR(length=3)", True, None),
        "flag": ("BOOLEAN()", True, "false"),
        "raw": ("BYTEA()", True, None),
        "key": ("UUID()", True, None),
        "doc": ("JSON(astext_type=Text())", True, None),
        "wide": ("DOUBLE_PRECISION(precision=53)", True, None),
        "small": ("SMALLINT()", True, None),
        "day": ("DATE()", True, None),
        "at": ("TIME()", True, None),
        "local": ("TIMESTAMP()", True, None),
    })
    identity = look.get_columns("orders", "shop")[0]["identity"]
    expect((identity["always"], identity["start"], identity["increment"]), (True, 1, 1))
    key = look.get_pk_constraint("orders", "shop")
    expect((key["name"], key["constrained_columns"]), ("orders_key", ["id", "line"]))
    (foreign,) = look.get_foreign_keys("orders", "shop")
    expect(
        (foreign["name"], foreign["constrained_columns"], foreign["referred_schema"], foreign["referred_table"], foreign["referred_columns"]),
        ("orders_customer", ["customer"], None, "customers", ["id"]),
    )
    expect(foreign["options"], {"ondelete": "CASCADE", "onupdate": "SET NULL"})
    (index,) = look.get_indexes("orders", "shop")
    expect((index["name"], index["column_names"], index["unique"]), ("orders_note", ["note", "customer"], False))
    found = {index["name"]: (index["column_names"], index["unique"], index.get("duplicates_constraint")) for index in look.get_indexes("customers")}
    expect(found, {"customers_key": (["key"], True, None), "one_mail": (["mail"], True, "one_mail")})
    expect([(unique["name"], unique["column_names"]) for unique in look.get_unique_constraints("customers")], [("one_mail", ["mail"])])
    (check,) = look.get_check_constraints("customers")
    expect((check["name"], check["sqltext"]), ("small_is_positive", "small > 0"))
    expect([column["name"] for column in look.get_columns("named")], ["id", "name"])
    expect("customers" in look.get_view_definition("named"), True)
    expect(look.get_table_comment("customers"), {"text": None})
    expect(len(look.get_multi_columns()), 1)
    with raises(exc.NoSuchTableError):
        look.get_columns("absent")
    # What was reflected can be made again elsewhere.
    metadata = sa.MetaData()
    metadata.reflect(source, schema="shop")
    expect(sorted(metadata.tables), ["customers", "shop.orders"])
    with source.begin() as conn:
        conn.execute(sa.text("DROP VIEW named"))
    metadata.drop_all(source)
    metadata.create_all(source)
    again = sa.inspect(source)
    expect((again.get_foreign_keys("orders", "shop"), again.get_pk_constraint("orders", "shop")), ([foreign], key))
    with source.begin() as conn:
        customers, orders = metadata.tables["customers"], metadata.tables["shop.orders"]
        customer = conn.execute(customers.insert().values(name="x").returning(customers.c.id, customers.c.score)).one()
        expect(customer, (1, Decimal("1.50")))
        conn.execute(orders.insert().values(line=1, customer=1))
        expect(conn.execute(select(orders.c.id, customers.c.name).join(customers)).one(), (1, "x"))
    metadata.drop_all(source)
    source.dispose()


async def asynchronous(_conninfo):
    source = create_async_engine(URL.format(driver="asyncpg", **ADDRESS))
    async with source.begin() as conn:
        await conn.run_sync(Base.metadata.create_all)
        expect(sorted(await conn.run_sync(lambda own: sa.inspect(own).get_table_names())), ["authors", "books"])
    sessions = async_sessionmaker(source, expire_on_commit=False)
    async with sessions.begin() as session:
        session.add_all([Author(name=f"A{number}", books=[Book(title="t", price=Decimal("1.25"))]) for number in range(10)])
    async with sessions() as session:
        total = await session.scalar(select(func.sum(Book.price)).join(Book.author).where(Author.name != "A0"))
        expect(total, Decimal("11.25"))
        found = (await session.scalars(select(Author).options(orm.selectinload(Author.books)).where(Author.id == 3))).one()
        expect((found.name, found.books[0].title), ("A2", "t"))
        with raises(exc.IntegrityError):
            session.add(Author(name="A1"))
            await session.flush()
        await session.rollback()
    async with source.begin() as conn:
        await conn.run_sync(Base.metadata.drop_all)
    await source.dispose()


run(mapped_objects, core, array_columns, enums, reflection, asynchronous)
