"""XML messages to columns and rows to XML: safe parsing, places in a document, values of texts."""
