"""The writes that agents may request, one verb per module; `table` lists them."""
