# SPDX-License-Identifier: Apache-2.0
import coeval
import pytest


@pytest.fixture
def db():
    with coeval.connect() as db:
        yield db


@pytest.fixture
def accounts(db):
    db.sql("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))")
    db.sql("INSERT INTO accounts VALUES (1, 100), (2, 100)")
    return db
