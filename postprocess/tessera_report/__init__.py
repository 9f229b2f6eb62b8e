"""Tables, plots and comparisons of Tessera's runs and sweeps.

    from tessera_report.metrics import read_metrics
    metrics = read_metrics("runs/a")     # all attempts merged; metrics.steps is a pandas table, a row for every step

The modules, lowest first: errors, opening, source (one file), metrics (the files of a run), find (what a path holds),
rows and measures (the numbers of the table), flags (which rows are not alike), table, compare, studies (what they
bring to the page), html (one page of everything), plots, cli.
"""
