"""What agents may ask to have written, one verb a module; `table` has them all."""
