# SPDX-License-Identifier: Apache-2.0
"""What SQLAlchemy's suite may ask of the dialect: everything that it knows, but for what is named here with its reason."""

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

# What PostgreSQL does not have, or has in another way than these tests ask for.
_NOT_OF_POSTGRESQL = {
    "computed_columns_virtual": "not in PostgreSQL 15",
    "dbapi_lastrowid": "keys come by RETURNING",
    "deferrable_fks": "a test of Oracle's kind",
    "denormalized_names": "names are lower case unless they are quoted",
    "emulated_lastrowid": "keys come by RETURNING",
    "emulated_lastrowid_even_with_sequences": "keys come by RETURNING",
    "fetch_percent": "FETCH has no PERCENT",
    "foreign_keys_reflect_as_index": "foreign keys have no index of their own",
    "json_deserializer_binary": "documents come as text",
    "legacy_unconditional_json_extract": "operators say what they extract",
    "non_updating_cascade": "ON UPDATE CASCADE is there",
    "nvarchar_types": "no such types",
    "order_by_collation": "collations have other names",
    "repeated_remote_col_foreign_keys": "a foreign key refers to a column once",
    "reflect_indexes_with_ascdesc_as_expression": "an index's order is no expression",
    "timestamp_microseconds": "a test of Oracle's kind",
    "unique_index_reflect_as_unique_constraints": "a unique index is no constraint",
}

# What Coeval does not have.
_NOT_THERE = {
    "array_type": "arrays have one dimension, and the suite's have two",
    "materialized_views": "materialized views are not there",
    "materialized_views_reflect_pk": "materialized views are not there",
    "time_timezone": "values of time with time zone are texts",
}


class Requirements(SuiteRequirements):
    """See the module."""

    def get_isolation_levels(self, config):
        """The default level, and all."""
        levels = ["AUTOCOMMIT", "SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"]
        return {"default": "SERIALIZABLE", "supported": levels}


def _is_closed(requirement):
    return any(isinstance(skip, exclusions.BooleanPredicate) and skip.value for skip in requirement.skips)


def _always(requirement):
    return property(lambda self: requirement)


for _name, _found in list(vars(SuiteRequirements).items()):
    _reason = _NOT_OF_POSTGRESQL.get(_name) or _NOT_THERE.get(_name)
    if _reason:
        setattr(Requirements, _name, _always(exclusions.skip_if(lambda: True, _reason)))
    elif isinstance(_found, property):
        try:
            _default = _found.fget(Requirements())
        except Exception:  # some look at the database first
            continue
        if isinstance(_default, exclusions.compound) and _is_closed(_default):
            setattr(Requirements, _name, _always(exclusions.open()))
