# SPDX-License-Identifier: Apache-2.0
"""Arrow tables as frames of pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import pyarrow


def data_frame(table: pyarrow.Table) -> pandas.DataFrame:
    """The table as a frame. Its memory is given back column by column, since it is nobody's any more."""
    import pyarrow

    for place, field in enumerate(table.schema):
        # A document is its text: pandas has no type of its own for it.
        if isinstance(field.type, pyarrow.JsonType):
            chunks: list[Any] = table.column(place).chunks
            texts = pyarrow.chunked_array([chunk.storage for chunk in chunks], pyarrow.string_view())
            table = table.set_column(place, field.name, texts)
        # Pyarrow makes nothing for pandas of lists of views.
        elif pyarrow.types.is_list(field.type):
            kind = field.type.value_type
            if pyarrow.types.is_string_view(kind):
                plain: pyarrow.DataType = pyarrow.large_string()
            elif pyarrow.types.is_binary_view(kind):
                plain = pyarrow.large_binary()
            else:
                continue
            table = table.set_column(place, field.name, table.column(place).cast(pyarrow.list_(plain)))
    return table.to_pandas(split_blocks=True, self_destruct=True, date_as_object=False)
