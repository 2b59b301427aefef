# SPDX-License-Identifier: Apache-2.0
"""SQLAlchemy on a database in the process."""

import datetime
import decimal
import uuid

import pytest
from sqlalchemy import Enum, ForeignKey, LargeBinary, Numeric, String, create_engine, func, inspect, select, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(20), index=True)
    amount: Mapped[decimal.Decimal] = mapped_column(Numeric(12, 2), default=decimal.Decimal("1.50"))
    share: Mapped[float] = mapped_column(default=0.5)
    document: Mapped[dict] = mapped_column(JSONB, nullable=True)
    tags: Mapped[list[str]] = mapped_column(ARRAY(String), default=list)
    mood: Mapped[str] = mapped_column(Enum("sad", "happy", name="mood"), default="happy")
    picture: Mapped[bytes] = mapped_column(LargeBinary, nullable=True)
    born: Mapped[datetime.date] = mapped_column(nullable=True)
    since: Mapped[datetime.datetime] = mapped_column(server_default=func.now())
    spent: Mapped[datetime.timedelta] = mapped_column(default=datetime.timedelta(hours=1))
    key: Mapped[uuid.UUID] = mapped_column(default=uuid.uuid4)
    books: Mapped[list["Book"]] = relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "book"
    id: Mapped[int] = mapped_column(primary_key=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("author.id"))
    author: Mapped[Author] = relationship(back_populates="books")


@pytest.fixture(params=["memory", "directory"])
def engine(request, tmp_path):
    engine = create_engine("coeval://" if request.param == "memory" else f"coeval:///{tmp_path}/db")
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


def test_objects(engine):
    born = datetime.date(1900, 1, 2)
    with Session(engine) as session:
        for number in range(5):
            author = Author(name=f"n{number}", document={"n": number}, tags=["a", 'b"\\'], picture=b"\x00\xff", born=born)
            author.books = [Book(), Book()]
            session.add(author)
        session.commit()
    with Session(engine) as session:
        of_three = select(Author).options(selectinload(Author.books)).where(Author.document["n"].as_integer() == 3)
        author = session.scalars(of_three).one()
        assert (author.name, author.amount, author.share, author.mood) == ("n3", decimal.Decimal("1.50"), 0.5, "happy")
        assert (author.document, author.tags, author.picture) == ({"n": 3}, ["a", 'b"\\'], b"\x00\xff")
        assert (author.born, author.spent, len(author.books)) == (born, datetime.timedelta(hours=1), 2)
        assert isinstance(author.key, uuid.UUID) and isinstance(author.since, datetime.datetime)
        session.delete(author)
        session.commit()
        assert session.scalar(select(func.count()).select_from(Book)) == 8
        counted = select(Author.name, func.count(Book.id)).join(Book).group_by(Author.name).order_by(Author.name)
        assert session.execute(counted).all() == [("n0", 2), ("n1", 2), ("n2", 2), ("n4", 2)]


def test_upserts_and_errors(engine):
    with Session(engine) as session:
        session.add(Author(id=1, name="first"))
        session.commit()
        new = insert(Author).values(id=1, name="again", key=uuid.uuid4())
        session.execute(new.on_conflict_do_update(index_elements=["id"], set_={"name": new.excluded.name + "!"}))
        session.commit()
        assert session.get(Author, 1).name == "again!"
        session.add(Book(author_id=99))
        with pytest.raises(IntegrityError) as raised:
            session.commit()
        assert raised.value.orig.sqlstate == "23503"


def test_connections_are_told_apart(engine):
    """What one has not committed the other does not see, of a database in memory, too."""
    with engine.connect() as one, engine.connect() as two:
        one.execute(text("INSERT INTO author (name, amount, share, tags, mood, spent, key) VALUES "
                         "('x', 1, 1, '{}', 'sad', '1 h', :key)"), {"key": uuid.uuid4()})
        assert two.scalar(select(func.count()).select_from(Author)) == 0
        one.rollback()
        assert one.scalar(select(func.count()).select_from(Author)) == 0


def test_isolation_levels(engine):
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        assert connection.scalar(text("SHOW transaction_isolation")) == "repeatable read"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE TABLE kept (a int)"))
    with engine.connect() as connection:
        assert connection.scalar(text("SHOW transaction_isolation")) == "serializable"
        assert inspect(connection).has_table("kept")


def test_reflection(engine):
    found = inspect(engine)
    assert found.get_table_names() == ["author", "book"]
    assert [column["name"] for column in found.get_columns("book")] == ["id", "author_id"]
    assert found.get_pk_constraint("author")["constrained_columns"] == ["id"]
    assert found.get_foreign_keys("book")[0]["referred_table"] == "author"
    assert [index["name"] for index in found.get_indexes("author")] == ["ix_author_name"]
    assert found.get_enums()[0]["labels"] == ["sad", "happy"]
