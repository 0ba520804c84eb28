"""Drop-in replacements for other lock libraries."""
