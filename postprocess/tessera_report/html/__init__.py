"""The report as one HTML file.

Lowest first: quantity (a number with its source), traced (the numbers of a row), study (the rows together, what was
asked), svg (matplotlib's pictures inside a page), panels (a picture each), findings, claims, checklist,
recommendation, tables, page (its markup is in templates). Studies bring their own sections (../studies.py).
"""
