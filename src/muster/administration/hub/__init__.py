"""The hub as a whole: made, looked at before it is made, opened to newcomers by tokens, and taken away again."""
