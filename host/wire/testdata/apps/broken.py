def application(:
