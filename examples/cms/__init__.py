"""A small content system that works: SQLite, 45 tools, rules, memory, and stand-ins for the web.

async with open_cms(folder) as cms, cms.toolbox() as box:
    session = await box.session("ann")
    await session.call("tool_search", {"query": "find the hero image"})
"""
