# SPDX-License-Identifier: Apache-2.0
"""How the suite makes temporary tables, upserts and so on: as with PostgreSQL, but for extensions, of which there are none."""

from sqlalchemy.dialects.postgresql import provision as postgresql  # noqa: F401 -- it registers what is looked up here
from sqlalchemy.testing import provision

for step in (
    provision.drop_all_schema_objects_post_tables,
    provision.set_default_schema_on_connection,
    provision.temp_table_keyword_args,
    provision.upsert,
):
    step.for_db("coeval")(step.fns["postgresql"])


@provision.post_configure_engine.for_db("coeval")
def make_schemas(url, engine, follower_ident):
    """The second schema that the suite takes for granted."""
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS test_schema")
